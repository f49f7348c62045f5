"""The IDX reader: what a writer wrote comes back, and a file with anything wrong is refused by name."""

import gzip
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from shared import IDX_CODES, idx_bytes, idx_header, peak_memory

from needle.data import read_idx

arrays = hnp.arrays(
    dtype=st.sampled_from(sorted(IDX_CODES)), shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
)


SAMPLE = idx_bytes(np.arange(6, dtype="int16").reshape(2, 3))


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Read bytes as an IDX file, raw."""
    path = tmp_path_factory.mktemp("idx") / "sample-idx"

    def read_bytes(content):
        path.write_bytes(content)
        return read_idx(path)

    return read_bytes


@given(array=arrays, pack=st.sampled_from([bytes, gzip.compress]))
def test_an_array_comes_back_bit_for_bit_in_native_byte_order(read, array, pack):
    result = read(pack(idx_bytes(array)))
    assert (result.dtype, result.shape) == (array.dtype, array.shape)
    assert result.dtype.isnative
    assert result.tobytes() == array.tobytes()


def test_the_array_can_be_written_to(read):
    array = read(SAMPLE)
    array[0, 0] = 5
    assert array[0, 0] == 5


@given(array=arrays, pack=st.sampled_from([bytes, gzip.compress]))
def test_truncation_at_every_byte_raises(read, array, pack):
    content = pack(idx_bytes(array))
    for length in range(len(content)):
        with pytest.raises(ValueError, match=r"sample-idx: (truncated|the file is empty|not an IDX file)"):
            read(content[:length])


@given(extra=st.binary(min_size=1, max_size=15))
def test_trailing_bytes_raise_in_a_plain_file_inside_gzip_and_after_it(read, extra):
    for content in (SAMPLE + extra, gzip.compress(SAMPLE + extra)):
        with pytest.raises(ValueError, match="trailing bytes, the header announces shape"):
            read(content)
    # Gzip's own tools overlook zeros here. The first magic byte might begin another member, which then ends early.
    problem = "truncated|damaged" if extra[0] == 0x1F else "trailing bytes after the end of the gzip data"
    with pytest.raises(ValueError, match=f"sample-idx: ({problem}|trailing bytes after)"):
        read(gzip.compress(SAMPLE) + extra)


def test_a_gzip_file_of_several_members_is_read_as_one(read):
    content = gzip.compress(SAMPLE[:7]) + gzip.compress(b"") + gzip.compress(SAMPLE[7:])
    assert read(content).tolist() == [[0, 1, 2], [3, 4, 5]]


@given(content=st.binary(max_size=40), start=st.sampled_from([b"", b"\0\0", b"\0\0\x08\x01", b"\x1f\x8b\x08\0"]))
def test_garbage_is_read_or_refused_with_a_value_error(read, content, start):
    try:
        array = read(start + content)
    except ValueError as error:
        assert "sample-idx" in str(error)
    else:
        # Garbage that happens to be a file must say the same when written again.
        assert idx_bytes(array) == start + content


@pytest.mark.parametrize("position", range(1, 9))
def test_a_damaged_gzip_checksum_raises(read, position):
    content = bytearray(gzip.compress(SAMPLE))
    content[-position] ^= 1
    with pytest.raises(ValueError, match="sample-idx: damaged gzip data"):
        read(bytes(content))


def test_a_wrong_magic_number_is_shown_beside_the_right_one(read):
    with pytest.raises(ValueError, match="starts with the bytes 50 4b 03 04; expected 00 00"):
        read(b"PK\x03\x04 this is a zip file")


def test_every_unknown_type_code_is_named(read):
    for code in set(range(256)) - set(IDX_CODES.values()):
        with pytest.raises(ValueError, match=f"unknown type code 0x{code:02X}; IDX has 0x08 uint8, 0x09 int8"):
            read(idx_header(code, 1) + bytes(8))


def test_an_empty_file_is_called_empty(read):
    with pytest.raises(ValueError, match="sample-idx: the file is empty"):
        read(b"")
    with pytest.raises(ValueError, match="sample-idx: the file is empty"):
        read(gzip.compress(b""))


def test_more_dimensions_than_numpy_has_are_refused(read):
    assert read(idx_header(0x08, *[1] * 32) + b"\7").shape == (1,) * 32
    with pytest.raises(ValueError, match="33 dimensions, at most 32"):
        read(idx_header(0x08, *[1] * 33) + b"\7")


@pytest.mark.parametrize("sizes", [(2**32 - 1,) * 3, (0, 2**32 - 1, 2**32 - 1, 2**32 - 1)])
def test_sizes_beyond_the_address_space_are_refused_even_if_the_array_is_empty(read, sizes):
    with pytest.raises(ValueError, match="more than this machine can address"):
        read(idx_header(0x0E, *sizes))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("size", [10**5, 2**31])
def test_a_size_that_the_file_cannot_hold_takes_no_memory(read, pack, size):
    content = pack(idx_header(0x0E, size) + b"\1\2\3")

    def attempt():
        with pytest.raises(ValueError, match=rf"truncated, the header announces shape \({size},\) of float64"):
            read(content)

    assert peak_memory(attempt) < 400_000


def test_a_gzip_bomb_is_expanded_no_further_than_its_header_announces(read):
    bomb = zlib.compressobj(wbits=31)
    content = bomb.compress(idx_header(0x08, 10)) + bomb.compress(bytes(2**26)) + bomb.flush()

    def attempt():
        with pytest.raises(ValueError, match=r"trailing bytes, the header announces shape \(10,\)"):
            read(content)

    assert peak_memory(attempt) < 400_000


def test_the_best_that_gzip_can_do_is_read(read):
    zeros = np.zeros(2**22, dtype="uint8")
    content = gzip.compress(idx_bytes(zeros))
    assert len(content) < zeros.nbytes / 900
    assert np.array_equal(read(content), zeros)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no-such-file"):
        read_idx(tmp_path / "no-such-file")


def test_a_path_may_be_a_string(tmp_path):
    path = tmp_path / "labels"
    path.write_bytes(idx_bytes(np.array([3, 1], dtype="uint8")))
    assert read_idx(str(path)).tolist() == [3, 1]
