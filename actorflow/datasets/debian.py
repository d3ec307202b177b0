"""Packages of Debian: the ones that are installed, lie in a folder, or can be downloaded. Needs no root.

`apt-get download` asks the mirrors that the machine is set up for, and compares the package with their
signed index; `dpkg-deb` unpacks it into a folder of its own. Nothing is installed and no script of it runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from actorflow.datasets.dataset import Absent, Source, Tell
from actorflow.datasets.folders import DATA, DatasetFolders

_R_LIBRARY = Path("usr/lib/R/site-library")
_DOWNLOAD_S = 300.0
_UNPACK_S = 60.0
_PATIENCE = (
    "-o",
    "Acquire::Retries=1",
    "-o",
    "Acquire::http::Timeout=10",
    "-o",
    "Acquire::https::Timeout=10",
)


def of_r(
    package: str, name: str, read: Callable[[Path], bytes], need: Callable[[], None], folders: DatasetFolders
) -> Iterator[Source]:
    """Yields where a package of R may be: in the user's folder, installed, in Debian's archive.

    Args:
        package: What Debian calls it.
        name: What R calls it, and its folder.
        read: Returns the normalised content of its folder, or raises `Absent`.
        need: Raises `Absent` if `read` cannot work; is asked before anything is downloaded.
        folders: Where to look.
    """
    return of_folder(package, _R_LIBRARY / name, read, folders, folders.r_libraries, need)


def of_folder(
    package: str,
    inside: Path,
    read: Callable[[Path], bytes],
    folders: DatasetFolders,
    installed: Sequence[Path],
    need: Callable[[], None] = lambda: None,
) -> Iterator[Source]:
    """Yields where one folder of a package may be: in the user's folder, installed, in Debian's archive.

    Args:
        package: What Debian calls it.
        inside: The folder, as it lies in the package.
        read: Returns the normalised content of the folder, or raises `Absent`.
        folders: Where to look.
        installed: The folders in which it lies where the package is installed.
        need: Raises `Absent` if `read` cannot work; is asked before anything is downloaded.
    """
    given = folders.given
    if given is not None:
        for folder in (given / inside.name, given / inside):
            yield Source(f"{DATA} {folder}", _reader(folder, read), slow=True)
        for deb in sorted(given.glob(f"{package}_*.deb")):
            yield Source(f"{DATA} {deb}", _unpacker(deb, inside, read), slow=True)
    for library in installed:
        yield Source(f"installed {library / inside.name}", _reader(library / inside.name, read), slow=True)

    def download(tell: Tell) -> bytes:
        need()
        with tempfile.TemporaryDirectory(prefix="actorflow-data-") as folder:
            return _unpack(_download(package, Path(folder), tell), inside, read, tell)

    yield Source(f"apt-get download {package}", download, downloads=True, slow=True)


def _reader(folder: Path, read: Callable[[Path], bytes]) -> Callable[[Tell], bytes]:
    def get(tell: Tell) -> bytes:
        if not folder.is_dir():
            raise Absent("no such folder")
        tell(f"reading {folder}")
        return read(folder)

    return get


def _unpacker(deb: Path, inside: Path, read: Callable[[Path], bytes]) -> Callable[[Tell], bytes]:
    return lambda tell: _unpack(deb, inside, read, tell)


def _unpack(deb: Path, inside: Path, read: Callable[[Path], bytes], tell: Tell) -> bytes:
    with tempfile.TemporaryDirectory(prefix="actorflow-data-") as folder:
        tell(f"unpacking {deb.name}")
        _ran(["dpkg-deb", "-x", str(deb), folder], Path(folder), _UNPACK_S)
        return _reader(Path(folder) / inside, read)(tell)


def _download(package: str, folder: Path, tell: Tell) -> Path:
    """Returns the file of a package; it comes to lie in `folder`."""
    if shutil.which("dpkg-deb") is None:
        raise Absent("dpkg-deb is not installed")
    tell(f"apt-get download {package}")
    _ran(["apt-get", *_PATIENCE, "download", package], folder, _DOWNLOAD_S)
    debs = sorted(folder.glob(f"{package}_*.deb"))
    if not debs:
        raise Absent("apt-get has downloaded nothing")
    return debs[0]


def _ran(command: Sequence[str], folder: Path, within_s: float) -> None:
    """Runs a program of Debian to its end, in a folder; raises `Absent` with what it says when it fails."""
    program = shutil.which(command[0])
    if program is None:
        message = f"{command[0]} is not installed"
        raise Absent(message)
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        message = f"{command[0]} was stopped after {within_s:.0f} s"
        raise Absent(message) from error
    except OSError as error:
        message = f"{command[0]} cannot be started ({error.strerror})"
        raise Absent(message) from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("W:")]
        message = " ".join(said) or f"{command[0]} ended with {done.returncode}"
        raise Absent(message)
