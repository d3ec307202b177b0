"""`actorflow data`: what it prints, and how it ends."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from actorflow.cli import main
from actorflow.datasets import fetching


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a machine without apt."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("ACTORFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("ACTORFLOW_DATA", raising=False)
    monkeypatch.setattr("actorflow.datasets.folders._R_LIBRARIES", ())
    return tmp_path / "cache" / "datasets"


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["data", *arguments]) == code
    out, err = capsys.readouterr()
    return out, err


def test_it_lists_the_data_sets_and_looks_into_the_cache(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def states() -> dict[str, str]:
        heading, *rows = said(capsys, "list")[0].splitlines()
        assert heading.split()[:2] == ["name", "what"]
        return {row.split()[0]: row.split()[-1] for row in rows}

    assert states() == {"austen": "no", "digits": "no", "fashion_mnist": "no"}
    said(capsys, "fetch", "digits")
    assert states() == {"austen": "no", "digits": "yes", "fashion_mnist": "no"}
    (cache / "digits.csv").write_text("")
    assert states() == {"austen": "no", "digits": "damaged", "fashion_mnist": "no"}


def test_fetching_prints_file_size_and_checksum_and_tells_on_stderr(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = said(capsys, "fetch", "digits")

    file, size, checksum = out.splitlines()
    assert file == str(cache / "digits.csv")
    content = Path(file).read_bytes()
    assert size == f"{len(content):,} bytes"
    assert checksum == f"sha256 {sha256(content).hexdigest()}"
    assert err.splitlines()[-1] == "digits is from: the Python package scikit-learn"
    assert said(capsys, "fetch", "digits") == (out, "digits was there\n")

    out, err = said(capsys, "fetch", "digits", "--to", str(tmp_path / "to"))
    assert out.splitlines()[0] == f"{tmp_path}/to/digits.csv"
    assert err == f"digits is from: the cache {cache}\n"


def test_what_cannot_be_had_ends_with_1_and_the_ways_out(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(capsys, "fetch", "austen", code=1)

    assert out == ""
    assert err.startswith("DatasetMissing: data set 'austen' must be found with its right content, got:\n")
    assert "apt install r-cran-janeaustenr" in err


def test_ctrl_c_ends_it_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "fetch", stopped)

    assert said(capsys, "fetch", "austen", code=130) == ("", "stopped by Ctrl-C; austen is as it was\n")


def test_a_wrong_name_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("fetch", "show"):
        assert "did you mean austen?" in said(capsys, verb, "austin", code=2)[1]


def test_it_shows_what_is_there_and_says_how_to_get_the_rest(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = said(capsys, "show", "digits")
    assert "licence: " in out
    assert "\n1,797 images of 8x8; 178 of 0, " in out
    assert "    ::**==" in out

    out, _ = said(capsys, "show", "austen")
    assert out.endswith("not on this machine: `actorflow data fetch austen` gets it\n")
    assert not cache.exists()


def test_a_damaged_file_is_told(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.mkdir(parents=True)
    (cache / "digits.csv").write_text("0,1\n")

    assert "`actorflow data fetch digits` gets it again" in said(capsys, "show", "digits", code=1)[1]
