from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from actorflow.errors import OnnxError
from actorflow.interop import onnx
from tests.oracle.onnx_nodes import LEAST, Outcome, report

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"


def test_without_the_package_loading_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)

    with pytest.raises(OnnxError) as caught:
        onnx.load("net.onnx")

    assert "the package onnx cannot be imported" in str(caught.value)
    assert "pip install 'actorflow[onnx]'" in str(caught.value)


def test_the_page_lists_the_ops_of_the_table() -> None:
    listed = re.search(r"<!-- ops -->\n(.*)\n<!-- /ops -->", PAGE.read_text(), re.DOTALL)

    assert listed is not None
    assert tuple(listed[1].replace("\n", " ").split(", ")) == onnx.list_supported()


def test_a_later_builder_takes_the_place_of_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from actorflow.interop.onnx import builder_table

    monkeypatch.setattr(builder_table, "_TABLE", {})
    first, second = (lambda node, inputs, opset: inputs for _ in range(2))

    onnx.builder("ai.onnx", "Foo")(first)
    onnx.builder("", "Foo")(second)

    assert builder_table.find("ai.onnx", "Foo") is second
    assert onnx.list_supported() == ("Foo",)
    assert onnx.list_supported("other") == ()


def test_an_oracle_without_cases_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([], whole=True) == 1

    assert f"fewer than {LEAST} base cases passed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("test_add", "y: got 1, expected 2", "FAILED test_add\n  y: got 1, expected 2"),
        ("test_scan_sum", "", "PASSED although it is excluded: test_scan_sum"),
    ],
)
def test_a_case_that_fails_or_passes_against_what_is_said_is_told(
    name: str, wrong: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report([Outcome(name, wrong)], whole=False) == 1

    assert said in capsys.readouterr().out


def test_a_case_that_is_excluded_with_a_reason_may_fail(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([Outcome("test_scan_sum", "no"), Outcome("test_add")], whole=False) == 0

    out = capsys.readouterr().out
    assert "1 excluded: Scan of opset 8" in out
    assert "base: 1 passed (0 with inputs fixed at load time), 1 excluded, 0 failed, 2 in all" in out
