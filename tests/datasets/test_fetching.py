"""Cache, the user's folder, packages; a damaged cache; several processes at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actorflow.datasets import atomic_files, fetching
from actorflow.datasets.dataset import Source
from actorflow.datasets.folders import DatasetFolders
from actorflow.errors import ConfigError, DatasetDamaged, DatasetMissing
from tests.datasets.packages import CONTENT, dataset
from tests.support.busy import HANG_S

ROOT = Path(__file__).parents[2]


class Package:
    """A package that counts how often it is asked, installed or to be downloaded."""

    def __init__(self, *, downloads: bool = False, slow: bool = True, content: bytes = CONTENT) -> None:
        self.asked = 0
        self.source = Source("the package", self.get, downloads=downloads, slow=slow)
        self.dataset = dataset(sources=lambda places: [self.source])
        self.content = content

    def get(self, tell: object) -> bytes:
        self.asked += 1
        return self.content


@pytest.fixture
def places(tmp_path: Path) -> DatasetFolders:
    return DatasetFolders(tmp_path / "kept", tmp_path / "given", r_libraries=())


def test_what_took_long_is_kept_and_not_asked_for_again(places: DatasetFolders) -> None:
    package = Package()

    for _ in range(3):
        assert fetching.load(package.dataset, folders=places) == CONTENT

    assert package.asked == 1
    assert atomic_files.read(places.kept / "made.txt") == CONTENT


def test_what_is_quick_leaves_no_trace(places: DatasetFolders) -> None:
    package = Package(slow=False)

    assert fetching.load(package.dataset, folders=places) == CONTENT

    assert not places.kept.exists()


def test_a_file_in_the_folder_of_the_user_is_taken_as_it_is(places: DatasetFolders) -> None:
    package = Package()
    assert places.given is not None
    atomic_files.keep(places.given / "made.txt", CONTENT)

    assert fetching.load(package.dataset, folders=places) == CONTENT
    assert package.asked == 0
    assert not places.kept.exists()


def test_nothing_is_downloaded_for_who_does_not_want_it(places: DatasetFolders) -> None:
    package = Package(downloads=True)

    with pytest.raises(DatasetMissing, match="data set 'made' must be found"):
        fetching.load(package.dataset, folders=places, download=False)
    assert package.asked == 0
    assert fetching.load(package.dataset, folders=places) == CONTENT


@pytest.mark.parametrize("damage", [b"", CONTENT[:-1], CONTENT + b"x", b"X" + CONTENT[1:]])
def test_a_damaged_cache_is_told_and_fetching_mends_it(damage: bytes, places: DatasetFolders) -> None:
    package = Package()
    path = fetching.fetch(package.dataset, folders=places).path
    path.write_bytes(damage)
    told: list[str] = []

    with pytest.raises(DatasetDamaged) as failed:
        fetching.load(package.dataset, folders=places)
    assert f"got {path}: {len(damage)} bytes with sha256" in failed.value.what
    assert failed.value.hint == "`actorflow data fetch made` gets it again"
    assert fetching.fetch(package.dataset, folders=places, tell=told.append).source == "the package"
    assert told == [f"{path} is damaged and will be replaced"]
    assert fetching.load(package.dataset, folders=places) == CONTENT


def test_a_whole_file_stays_and_a_copy_is_made_of_it(places: DatasetFolders, tmp_path: Path) -> None:
    package = Package()
    first = fetching.fetch(package.dataset, folders=places)
    before = first.path.stat()

    again = fetching.fetch(package.dataset, folders=places)
    copy = fetching.fetch(package.dataset, folders=places, to=tmp_path / "to")

    assert (first.source, again.source) == ("the package", None)
    assert again.path.stat().st_ino == before.st_ino
    assert copy == fetching.Fetched(tmp_path / "to" / "made.txt", again.size, again.sha256, copy.source)
    assert copy.source == f"the cache {places.kept}"
    assert copy.path.read_bytes() == CONTENT
    assert package.asked == 1


def test_a_package_with_another_content_is_refused_and_nothing_kept(places: DatasetFolders) -> None:
    package = Package(content=b"another edition")

    for get in (fetching.load, fetching.fetch):
        with pytest.raises(DatasetDamaged, match="the package: 15 bytes with sha256"):
            get(package.dataset, folders=places)
    assert not places.kept.exists()


def test_an_error_names_the_places_where_nothing_is(places: DatasetFolders, tmp_path: Path) -> None:
    with pytest.raises(DatasetMissing) as failed:
        fetching.fetch(dataset(), folders=places)
    assert f"the cache {places.kept}: no made.txt" in str(failed.value)
    assert f"ACTORFLOW_DATA {places.given}: no made.txt" in str(failed.value)

    with pytest.raises(DatasetMissing, match="ACTORFLOW_DATA: not set\n"):
        fetching.fetch(dataset(), folders=DatasetFolders(tmp_path, r_libraries=()))


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match=f"got {tmp_path}/file/kept"):
        fetching.load(Package().dataset, folders=DatasetFolders(tmp_path / "file" / "kept"))


AT_ONCE = """
import sys
from pathlib import Path
from actorflow.datasets import fetching, atomic_files
from actorflow.datasets.dataset import Source
from actorflow.datasets.folders import DatasetFolders
from tests.datasets.packages import dataset

content = b"x" * 5_000_000
made = dataset(content, lambda places: [Source("made", lambda tell: content, slow=True)])
path = Path(sys.argv[1]) / made.file
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    fetching.load(made, folders=DatasetFolders(path.parent))  # raises where it finds a half
    path.unlink(missing_ok=True)
print(fetching.fetch(made, folders=DatasetFolders(path.parent)).size)
"""


def test_processes_that_fetch_at_once_never_see_a_half(tmp_path: Path) -> None:
    def processes() -> Iterator[subprocess.Popen[str]]:
        for _ in range(2):
            yield subprocess.Popen(
                [sys.executable, "-c", AT_ONCE, tmp_path],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

    both = list(processes())
    try:
        for process in both:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in both:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate(timeout=HANG_S)[0] for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()

    assert said == ["5000000\n", "5000000\n"]
    assert {path.name for path in tmp_path.iterdir()} <= {"made.txt"}
