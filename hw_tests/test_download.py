"""`apps.download` against a server on this machine, with small files of its own."""

import hashlib
import http.server
import socket
import threading

import pytest

pytest.importorskip("pooch", reason="needs pooch, of the extra 'apps'")

from apps.download import MNIST_FILES, DownloadError, fetch, fetch_mnist

CONTENT = {"images.gz": b"\x1f\x8b" + bytes(range(256)) * 40, "labels.gz": b"\x1f\x8b seven, two, one"}
CHECKSUMS = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}


class Server:
    """Serves `files` under http://127.0.0.1:PORT/ and counts what is asked for; `cut` announces more than it sends."""

    def __init__(self, files, cut=False):
        self.requests = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.lstrip("/")
                outer.requests.append(name)
                if name not in files:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(files[name]) + (100 if cut else 0)))
                self.end_headers()
                self.wfile.write(files[name])

            def log_message(self, *args):
                """Keep the tests' output quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *exc_info):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server():
    with Server(CONTENT) as server:
        yield server


def test_files_arrive_whole_in_a_folder_that_is_made(server, tmp_path):
    paths = fetch(CHECKSUMS, [server.url], tmp_path / "new" / "folder")
    assert [path.name for path in paths] == list(CONTENT)
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())


def test_what_is_there_is_not_fetched_again(server, tmp_path):
    fetch(CHECKSUMS, [server.url], tmp_path)
    (tmp_path / "labels.gz").unlink()
    fetch(CHECKSUMS, [server.url], tmp_path)
    assert server.requests == ["images.gz", "labels.gz", "labels.gz"]


def test_a_wrong_checksum_is_an_error_and_leaves_nothing_behind(server, tmp_path):
    with pytest.raises(DownloadError, match=r"images\.gz could not be fetched.*expected sha256:0{64} but got"):
        fetch({"images.gz": "0" * 64}, [server.url], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_transfer_that_breaks_off_is_an_error_and_leaves_nothing_behind(tmp_path):
    with Server(CONTENT, cut=True) as server, pytest.raises(DownloadError, match=r"images\.gz could not be fetched"):
        fetch(CHECKSUMS, [server.url], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_next_server_is_asked_when_one_fails(server, tmp_path):
    with Server({}) as empty:
        fetch(CHECKSUMS, [empty.url, server.url], tmp_path)
    assert empty.requests == server.requests == list(CONTENT)


def test_an_error_names_the_server_and_its_answer(tmp_path):
    with Server({}) as empty, pytest.raises(DownloadError, match=f"{empty.url}: the server answered 404 Not Found"):
        fetch(CHECKSUMS, [empty.url], tmp_path)


def test_a_server_that_is_not_there_is_an_error(tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/"
        with pytest.raises(DownloadError, match="no connection"):
            fetch(CHECKSUMS, [url], tmp_path)


def test_a_file_of_the_same_name_and_another_content_is_not_replaced(server, tmp_path):
    mine = tmp_path / "labels.gz"
    mine.write_bytes(b"my own labels")
    with pytest.raises(DownloadError, match=r"labels\.gz: is there already with another content"):
        fetch(CHECKSUMS, [server.url], tmp_path)
    assert mine.read_bytes() == b"my own labels"
    assert server.requests == []


def test_a_folder_that_cannot_be_made_is_an_error(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DownloadError, match="cannot be written to"):
        fetch(CHECKSUMS, [server.url], tmp_path / "file" / "folder")


def test_fetch_mnist_gives_the_folder_with_the_files(server, tmp_path):
    assert fetch_mnist(tmp_path, urls=[server.url], files=CHECKSUMS) == tmp_path
    assert {path.name for path in tmp_path.iterdir()} == set(CONTENT)


def test_mnist_is_four_files_each_with_a_sha256():
    kinds = {f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")}
    assert set(MNIST_FILES) == kinds
    assert all(len(bytes.fromhex(checksum)) == 32 for checksum in MNIST_FILES.values())
