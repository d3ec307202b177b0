"""Austen's novels: out of a package made up in their shape, and the real ones where apt has them."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

import actorflow as af
from actorflow.datasets import debian, fetching, novels
from actorflow.datasets.folders import DatasetFolders
from actorflow.errors import DatasetDamaged, DatasetMissing
from tests.datasets.packages import r_package

TITLES = [
    "Sense and Sensibility",
    "Pride and Prejudice",
    "Mansfield Park",
    "Emma",
    "Northanger Abbey",
    "Persuasion",
]
SHORT = {
    "emma": ["EMMA", "", "handsome,  "],
    "mansfieldpark": ["MANSFIELD PARK"],
    "northangerabbey": ["NORTHANGER ABBEY"],
    "persuasion": ["Persuasion", "cafe\N{COMBINING ACUTE ACCENT}"],
    "prideprejudice": ["PRIDE AND PREJUDICE"],
    "sensesensibility": ["SENSE AND SENSIBILITY"],
}


def test_the_order_is_that_of_publication_and_lines_are_normalised(tmp_path: Path) -> None:
    pytest.importorskip("rdata", reason="reads and writes files of R")
    r_package(tmp_path / "janeaustenr", SHORT)
    places = DatasetFolders(tmp_path / "kept", tmp_path, ())
    content = novels.normalise([SHORT[name] for name in novels._TITLES.values()])
    short = replace(novels.AUSTEN, sha256=sha256(content).hexdigest())

    texts = novels.decode(fetching.load(short, folders=places, download=False))

    assert list(texts) == TITLES
    assert texts["Emma"] == "EMMA\n\nhandsome,\n"
    assert texts["Persuasion"] == "Persuasion\ncaf\N{LATIN SMALL LETTER E WITH ACUTE}\n"
    assert json.loads((tmp_path / "kept" / "austen.json").read_text("utf-8")) == texts


def test_another_edition_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("rdata", reason="reads and writes files of R")
    r_package(tmp_path / "janeaustenr", SHORT)

    with pytest.raises(DatasetDamaged, match=f"ACTORFLOW_DATA {tmp_path}/janeaustenr: 2.. bytes with sha256"):
        fetching.load(novels.AUSTEN, folders=DatasetFolders(tmp_path / "kept", tmp_path, ()), download=False)


def test_without_any_package_it_says_what_can_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(DatasetMissing) as failed:
        fetching.fetch(
            novels.AUSTEN, folders=DatasetFolders(tmp_path / "kept", None, (tmp_path / "library",))
        )

    said = str(failed.value)
    assert f"installed {tmp_path}/library/janeaustenr: no such folder" in said
    assert "apt-get download r-cran-janeaustenr: " in said
    assert "apt install r-cran-janeaustenr" in said
    assert "pip install rdata" in said
    assert "ACTORFLOW_DATA=DIR" in said


def test_the_verb_takes_them_from_the_cache_or_downloads_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACTORFLOW_CACHE", str(tmp_path))
    monkeypatch.delenv("ACTORFLOW_DATA", raising=False)
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "austen.json").write_text("{}")

    with pytest.raises(DatasetDamaged, match="`actorflow data fetch austen` gets it again"):
        af.datasets.austen(download=False)


@pytest.mark.slow
def test_the_real_novels_come_out_of_debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdata", reason="reads files of R")
    monkeypatch.setattr(debian, "_DOWNLOAD_S", 30.0)
    told: list[str] = []
    try:
        fetched = fetching.fetch(novels.AUSTEN, folders=DatasetFolders(tmp_path), tell=told.append)
    except DatasetMissing as missing:
        pytest.skip(f"no package here: {missing.what}")
    except DatasetDamaged:
        if not any("janeaustenr_1.0.0-" in doing for doing in told):
            pytest.skip(f"another edition of the package here: {told}")
        raise

    texts = novels.decode(fetched.path.read_bytes())

    assert fetched.size == novels.AUSTEN.size == fetched.path.stat().st_size
    assert list(texts) == TITLES
    assert sum(len(text.split()) for text in texts.values()) == 717_537
    assert "It is a truth universally acknowledged, that a single man in" in texts["Pride and Prejudice"]
    assert [text.split("\n")[0].title().replace("And", "and") for text in texts.values()] == TITLES
