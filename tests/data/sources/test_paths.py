"""Which files are read, in which order, and what is said of those that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from actorflow.data.sources.paths import files_of, name_source
from actorflow.errors import ConfigError, InputError


def made(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(b"")


def test_a_path_may_be_text_or_a_path(tmp_path):
    made(tmp_path, "a.txt")

    assert (
        files_of("s", tmp_path / "a.txt")
        == files_of("s", str(tmp_path / "a.txt"))
        == (str(tmp_path / "a.txt"),)
    )


@pytest.mark.parametrize("paths", [None, 3, 1.5])
def test_what_is_neither_a_path_nor_several_is_refused(paths):
    with pytest.raises(ConfigError, match=f"s takes a path, a pattern, or several, got {paths!r}"):
        files_of("s", paths)


def test_several_paths_keep_their_order_and_patterns_are_sorted(tmp_path):
    made(tmp_path, "b.txt", "a.txt", "c.csv", "d.csv", "folder.txt/x")

    found = files_of("s", [tmp_path / "d.csv", tmp_path / "*.txt", tmp_path / "c.csv"])

    assert [Path(file).name for file in found] == ["d.csv", "a.txt", "b.txt", "c.csv"]


def test_two_stars_go_into_folders(tmp_path):
    made(tmp_path, "a.txt", "x/b.txt", "x/y/c.txt")

    found = files_of("s", tmp_path / "**" / "*.txt")

    assert [Path(file).name for file in found] == ["a.txt", "b.txt", "c.txt"]


def test_a_file_goes_before_the_pattern_that_reads_the_same(tmp_path):
    made(tmp_path, "a[1].txt", "a1.txt")

    assert files_of("s", tmp_path / "a[1].txt") == (str(tmp_path / "a[1].txt"),)


def test_a_missing_file_is_told_with_names_like_it(tmp_path):
    made(tmp_path, "train.csv", "other.bin")

    with pytest.raises(InputError, match=r"csv found no file '.*trian.csv'\n.*there is 'train.csv'$"):
        files_of("csv", tmp_path / "trian.csv")


def test_a_missing_folder_is_told_with_the_part_that_is_there(tmp_path):
    with pytest.raises(InputError, match=r"there is no folder '.*/no/where'; look in '") as error:
        files_of("csv", tmp_path / "no" / "where" / "a.csv")

    assert repr(str(tmp_path)) in str(error.value)


def test_an_empty_folder_is_told(tmp_path):
    with pytest.raises(InputError, match="has no files"):
        files_of("csv", tmp_path / "a.csv")


def test_a_pattern_without_files_is_told(tmp_path):
    made(tmp_path, "a.txt")

    with pytest.raises(InputError, match=r"csv found no file that matches '.*/\*\.csv'\n.*'a.txt'"):
        files_of("csv", tmp_path / "*.csv")


def test_a_directory_is_told_with_the_pattern_of_its_files(tmp_path):
    with pytest.raises(InputError, match=r"csv reads files, got the directory '.*'\n.*/\*'"):
        files_of("csv", tmp_path)


@pytest.mark.parametrize("path", [3, None, b"a.txt", "", "a\0b"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ConfigError, match="csv takes paths as text, got"):
        files_of("csv", [path])


def test_no_paths_are_refused():
    with pytest.raises(ConfigError, match="at least one path"):
        files_of("csv", [])


def test_a_source_is_called_by_its_first_file():
    assert name_source("csv", ("a",)) == "csv 'a'"
    assert name_source("csv", ("a", "b", "c")) == "csv 'a' and 2 more"
