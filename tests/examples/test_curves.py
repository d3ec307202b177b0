"""Curves are drawn where matplotlib is installed, and missed elsewhere without an error."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.examples.scripts import script


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script(monkeypatch, "curves")


def test_a_figure_has_its_labels(curves: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'actorflow[examples]'")
    file = tmp_path / "curve.svg"

    curves.draw(
        str(file), {"read": ([(1, 2.0), (2, 1.0)], "-"), "held out": ([(2, 3.0)], "o")}, xlabel="words"
    )

    assert file.read_text().count("<path") > 2
    assert "<!-- words -->" in file.read_text()
    assert "<!-- held out -->" in file.read_text()


def test_without_matplotlib_it_says_what_to_install(
    curves: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    curves.draw(str(tmp_path / "curve.svg"), {"read": ([(1, 2.0)], "-")})

    assert capsys.readouterr().out == "no figure: pip install matplotlib\n"
    assert not list(tmp_path.iterdir())
