"""Where a package of R is looked for, and what apt and dpkg are asked; both are stand-ins here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from actorflow.datasets import debian
from actorflow.datasets.dataset import Absent, Source
from actorflow.datasets.folders import DatasetFolders
from tests.datasets.packages import program

# Packages of the tests are files with the text of the one variable. To unpack one, dpkg-deb -x FILE FOLDER.
UNPACK = 'mkdir -p "$3/usr/lib/R/site-library/made" && cp "$2" "$3/usr/lib/R/site-library/made/text"'


def read(package: Path) -> bytes:
    try:
        return (package / "text").read_bytes()
    except OSError as error:
        raise Absent(error.strerror) from error


def sources(places: DatasetFolders) -> list[Source]:
    return list(debian.of_r("r-cran-made", "made", read, lambda: None, places))


@pytest.fixture
def places(tmp_path: Path) -> DatasetFolders:
    return DatasetFolders(tmp_path / "kept", tmp_path / "given", (tmp_path / "library",))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder beside the shell's in which programs are found; temporary folders come to lie in tmp_path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("mkdir", "cp", "sleep"):
        (folder / name).symlink_to(f"/bin/{name}")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return folder


def told(source: Source) -> tuple[bytes | str, list[str]]:
    doing: list[str] = []
    try:
        return source.get(doing.append), doing
    except Absent as why:
        return str(why), doing


def installed(library: Path, text: bytes) -> None:
    (library / "made").mkdir(parents=True)
    (library / "made" / "text").write_bytes(text)


def test_folders_of_the_user_come_first_and_downloads_last(places: DatasetFolders, programs: Path) -> None:
    assert places.given is not None
    installed(places.r_libraries[0], b"installed")
    installed(places.given, b"given")
    installed(places.given / "usr/lib/R/site-library", b"unpacked")
    (places.given / "r-cran-made_1_all.deb").write_bytes(b"packed")
    program(programs, "dpkg-deb", UNPACK)
    program(programs, "apt-get", "echo downloaded > r-cran-made_1_all.deb")

    found = sources(places)

    assert [told(source)[0] for source in found] == [
        b"given",
        b"unpacked",
        b"packed",
        b"installed",
        b"downloaded\n",
    ]
    assert [source.downloads for source in found] == [False] * 4 + [True]
    assert not list((programs.parent / "tmp").iterdir())


def test_a_package_is_downloaded_without_root_into_a_folder_that_goes_away(
    places: DatasetFolders, programs: Path, tmp_path: Path
) -> None:
    program(programs, "dpkg-deb", UNPACK)
    program(programs, "apt-get", f'echo "$*" "$LC_ALL" > {tmp_path}/asked; echo text > r-cran-made_1_all.deb')

    content, doing = told(sources(places)[-1])

    assert content == b"text\n"
    assert [line.split(" /")[0] for line in doing] == [
        "apt-get download r-cran-made",
        "unpacking r-cran-made_1_all.deb",
        "reading",
    ]
    assert (tmp_path / "asked").read_text().endswith(" download r-cran-made C\n")
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(
    ("apt", "why"),
    [
        (
            "echo 'W: no sandbox' >&2; echo 'E: Unable to locate package' >&2; exit 100",
            "E: Unable to locate package",
        ),
        ("exit 7", "apt-get ended with 7"),
        ("true", "apt-get has downloaded nothing"),
        ("echo text > r-cran-other_1_all.deb", "apt-get has downloaded nothing"),
        (None, "apt-get is not installed"),
    ],
)
def test_what_apt_says_is_passed_on(
    apt: str | None, why: str, places: DatasetFolders, programs: Path
) -> None:
    program(programs, "dpkg-deb", UNPACK)
    if apt is not None:
        program(programs, "apt-get", apt)

    assert told(sources(places)[-1])[0] == why


def test_nothing_is_downloaded_that_could_not_be_read(
    places: DatasetFolders, programs: Path, tmp_path: Path
) -> None:
    program(programs, "apt-get", f"echo asked > {tmp_path}/asked")

    def need() -> None:
        raise Absent("no reader")

    assert told(sources(places)[-1])[0] == "dpkg-deb is not installed"
    program(programs, "dpkg-deb", UNPACK)
    assert told(list(debian.of_r("r-cran-made", "made", read, need, places))[-1])[0] == "no reader"
    assert not (tmp_path / "asked").exists()


def test_a_package_that_cannot_be_unpacked_or_is_another_is_passed_over(
    places: DatasetFolders, programs: Path
) -> None:
    assert places.given is not None
    places.given.mkdir()
    (places.given / "r-cran-made_1_all.deb").write_bytes(b"no package")
    packed = sources(places)[2]

    assert told(packed)[0] == "dpkg-deb is not installed"
    program(programs, "dpkg-deb", "echo 'dpkg-deb: error: not a Debian format archive' >&2; exit 2")
    assert told(packed)[0] == "dpkg-deb: error: not a Debian format archive"
    program(programs, "dpkg-deb", "true")
    assert told(packed)[0] == "no such folder"


def test_a_mirror_that_never_answers_is_given_up(
    places: DatasetFolders, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(programs, "dpkg-deb", UNPACK)
    program(programs, "apt-get", f"echo $$ > {tmp_path}/pid; exec sleep 600")
    monkeypatch.setattr(debian, "_DOWNLOAD_S", 1.0)

    assert told(sources(places)[-1])[0] == "apt-get was stopped after 1 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
