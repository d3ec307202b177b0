from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from actorflow.errors import OnnxError
from actorflow.interop import onnx

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
    assert tuple(listed[1].replace("\n", " ").split(", ")) == onnx.supported()


def test_a_later_builder_takes_the_place_of_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from actorflow.interop.onnx import table

    monkeypatch.setattr(table, "_TABLE", {})
    first, second = (lambda node, inputs, opset: inputs for _ in range(2))

    onnx.builder("ai.onnx", "Foo")(first)
    onnx.builder("", "Foo")(second)

    assert table.find("ai.onnx", "Foo") is second
    assert onnx.supported() == ("Foo",)
    assert onnx.supported("other") == ()
