"""`actorflow keys`: the file that the processes of a cluster share."""

from __future__ import annotations

from pathlib import Path

import pytest

from actorflow.cli import main
from actorflow.transport.zeromq import Keyring


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["keys", *arguments]) == 0
    return capsys.readouterr().out.split()


def test_keys_are_made_changed_and_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "keys")

    (first,) = said(capsys, "new", file)
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    second, still = said(capsys, "rotate", file)
    assert still == first != second
    assert said(capsys, "show", file) == [second, first]
    assert said(capsys, "drop", file) == [second]
    assert Keyring.load(file).ring.publics == (second,)
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]


def test_no_secret_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "keys"
    said(capsys, "new", str(file))
    said(capsys, "rotate", str(file))

    secrets = {pair.secret for pair in Keyring.load(file).ring.pairs}
    assert not secrets & set(said(capsys, "show", str(file)))


def test_a_file_is_not_overwritten_and_one_that_others_can_read_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys"
    assert main(["keys", "show", str(file)]) == 2
    assert f"actorflow keys new {file}" in capsys.readouterr().err
    said(capsys, "new", str(file))
    before = file.read_text()

    assert main(["keys", "new", str(file)]) == 2
    assert "a file that is not there yet" in capsys.readouterr().err
    file.chmod(0o640)
    for verb in ("show", "rotate", "drop"):
        assert main(["keys", verb, str(file)]) == 2
        assert f"chmod 600 {file}" in capsys.readouterr().err
    assert file.read_text() == before
