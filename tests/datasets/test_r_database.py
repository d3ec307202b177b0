"""Texts out of an installed package of R, and what is said of one that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from actorflow.datasets import r_database
from actorflow.datasets.dataset import Absent
from tests.datasets.packages import r_package

pytest.importorskip("rdata", reason="reads and writes files of R")

NOVELS = {"emma": ["EMMA", "", "Emma Woodhouse, handsome, clever, and rich, £20,000"], "lady": ["LADY SUSAN"]}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return r_package(tmp_path / "novels", NOVELS)


def test_the_variables_that_are_asked_for_are_read(package: Path) -> None:
    assert r_database.texts(package, ["lady", "emma"]) == [NOVELS["lady"], NOVELS["emma"]]


def test_another_package_is_absent(package: Path, tmp_path: Path) -> None:
    with pytest.raises(Absent, match=r"novels of R cannot be read \(KeyError: 'sanditon'\)"):
        r_database.texts(package, ["sanditon"])
    with pytest.raises(Absent, match="no Rdata.rdx"):
        r_database.texts(tmp_path, ["emma"])


@pytest.mark.parametrize("file", ["Rdata.rdx", "Rdata.rdb"])
@pytest.mark.parametrize("cut", [0, 1, 0.3, 0.9])
def test_a_file_that_is_cut_short_is_absent_whatever_its_reader_raises(
    file: str, cut: float, package: Path
) -> None:
    path = package / "data" / file
    whole = path.read_bytes()
    path.write_bytes(whole[: int(cut) or int(len(whole) * cut)])

    with pytest.raises(Absent, match="novels of R cannot be read"):
        r_database.texts(package, list(NOVELS))


def test_a_length_that_lies_is_noticed(package: Path) -> None:
    path = package / "data" / "Rdata.rdb"
    path.write_bytes(b"\0\0\0\1" + path.read_bytes()[4:])

    with pytest.raises(Absent, match="which says another length"):
        r_database.texts(package, ["emma"])


def test_without_its_reader_it_says_what_to_install(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(r_database, "find_spec", lambda name: None)

    with pytest.raises(Absent, match="pip install rdata"):
        r_database.texts(package, ["emma"])
