"""Fetching data sets that do not come with a package: with pooch, each file held to its SHA-256."""

from __future__ import annotations

import hashlib
import logging
import os
import pathlib
from collections.abc import Mapping, Sequence

#: Where copies of MNIST are kept, tried in this order.
MNIST_URLS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)

#: The four files as their authors packed them, and their checksums.
MNIST_FILES = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}

_TIMEOUT = 30.0  # seconds without a byte from the server


class DownloadError(OSError):
    """A file could not be fetched; the text says which, from where, and why."""


def fetch_mnist(
    folder: str | os.PathLike[str] | None = None,
    *,
    urls: Sequence[str] = MNIST_URLS,
    files: Mapping[str, str] = MNIST_FILES,
) -> pathlib.Path:
    """Have the four files of MNIST in a folder, fetching those that are not there yet.

    Parameters
    ----------
    folder : str or os.PathLike, optional
        Where to put them; by default a folder of the user's cache.
    urls, files
        As in `fetch`.

    Returns
    -------
    pathlib.Path
        The folder.

    Raises
    ------
    DownloadError
        As `fetch` does.
    """
    import pooch

    folder = pathlib.Path(folder) if folder is not None else pathlib.Path(pooch.os_cache("needle")) / "mnist"
    fetch(files, urls, folder)
    return folder


def fetch(files: Mapping[str, str], urls: Sequence[str], folder: str | os.PathLike[str]) -> list[pathlib.Path]:
    """Have `files` in `folder`: what is there with the right checksum stays, the rest is fetched.

    A file gets its name only after its checksum was found right, so an interrupted download leaves nothing behind.
    A progress bar on the terminal shows how far each file has come.

    Parameters
    ----------
    files : mapping of str to str
        File name to SHA-256, in hexadecimal digits.
    urls : sequence of str
        Folders on servers, with a slash at their end. The next is asked when one fails.
    folder : str or os.PathLike
        Made if it is not there.

    Returns
    -------
    list of pathlib.Path
        One for each file, in the order of `files`.

    Raises
    ------
    DownloadError
        If a file cannot be had from any server with the right checksum, or a file of that name but another content
        is there already: it is not replaced.
    """
    folder = pathlib.Path(folder)
    paths = [folder / name for name in files]
    missing = [path for path in paths if not _is_there(path, files[path.name])]
    for path in missing:
        _fetch_one(path, files[path.name], urls)
    return paths


def _is_there(path: pathlib.Path, checksum: str) -> bool:
    if not path.exists():
        return False
    try:
        with open(path, "rb") as file:
            found = hashlib.sha256()
            while chunk := file.read(1 << 20):
                found.update(chunk)
    except OSError as error:
        raise DownloadError(f"{path}: is there but cannot be read ({error.strerror})") from error
    if found.hexdigest() != checksum:
        raise DownloadError(
            f"{path}: is there already with another content (SHA-256 {found.hexdigest()[:12]}…, expected "
            f"{checksum[:12]}…); it is not replaced: move it away or choose another folder"
        )
    return True


def _fetch_one(path: pathlib.Path, checksum: str, urls: Sequence[str]) -> None:
    import pooch
    import requests
    from tqdm import tqdm

    pooch.get_logger().setLevel(logging.WARNING)
    failures = []
    for url in urls:
        # disable=None: no bar where stderr is no terminal. pooch sets the total when it knows it, and until then
        # asks whether there is a bar: tqdm says yes to a total above 0.
        with tqdm(desc=path.name, total=1, unit="B", unit_scale=True, leave=False, disable=None) as bar:
            downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=_TIMEOUT)
            try:
                pooch.retrieve(url + path.name, f"sha256:{checksum}", path.name, path.parent, downloader=downloader)
                return
            except requests.RequestException as error:
                failures.append(f"{url}: {_reason(error)}")
            except ValueError as error:  # pooch's word for a wrong checksum
                failures.append(f"{url}: {str(error).split('. ')[0]}")
            except OSError as error:
                raise DownloadError(f"{path.parent}: cannot be written to ({error.strerror or error})") from error
    raise DownloadError(f"{path.name} could not be fetched: " + "; ".join(failures))


def _reason(error: Exception) -> str:
    """What went wrong, without the layers of library names around it."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return f"no answer within {_TIMEOUT:.0f} s"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return f"{type(error).__name__}: {error}"
