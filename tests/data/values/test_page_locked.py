"""Elements on their way to a card, on a stand-in for CuPy."""

from __future__ import annotations

import asyncio
import sys
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.data.values.page_locked import on_the_way_to
from actorflow.errors import ConfigError, PlacementError
from tests.kernels import fake_cupy

Point = namedtuple("Point", "x y")


def test_an_element_is_copied_array_by_array_in_its_structure() -> None:
    text = np.array([b"a", b"bc"], object)
    element: Any = {
        "a": np.arange(6).reshape(2, 3).T,
        "b": (1, text, [np.float32(2)]),
        "c": Point(np.ones(2), "t"),
    }

    with fake_cupy.installed():
        copy = on_the_way_to("/gpu:0")
        assert copy is not None
        found = copy(element)

    assert found["a"].tolist() == element["a"].tolist()
    assert not np.shares_memory(found["a"], element["a"])
    assert found["b"][1] is text
    assert found["b"][2] == [np.float32(2)]
    assert type(found["c"]) is Point
    assert found["c"].x.tolist() == [1, 1]
    assert copy(np.zeros((0, 3))).shape == (0, 3)


def test_a_pipeline_to_a_card_gives_the_same_and_goes_on_at_the_same_position() -> None:
    plain = af.data.numbers(10).map(np.full(3, 2).__mul__).batch(2)

    async def elements(pipeline: Any, position: Any = None) -> tuple[list[Any], Any]:
        async with pipeline.open(position) as stream:
            first = await anext(stream)
            return [first, *[element async for element in stream]], position or stream.position()

    with fake_cupy.installed():
        there = plain.prefetch(2, device="/gpu:0")
        found, _ = asyncio.run(elements(there))
        expected, _ = asyncio.run(elements(plain))
        assert np.array_equal(found, expected)
        assert there.fingerprint == plain.fingerprint
        rest, _ = asyncio.run(
            elements(there, {"version": 1, "pipeline": plain.fingerprint, "taken": 3, "seed": 0})
        )
        assert np.array_equal(rest, expected[3:])
    assert repr(there).endswith("batch(2) → prefetch(2, device='/gpu:0')>")


def test_the_host_needs_no_copy() -> None:
    assert on_the_way_to("/cpu:0") is on_the_way_to("/cpu:1") is None
    assert repr(af.data.numbers(3).prefetch(1, device="/cpu:0")).endswith("prefetch(1)>")


def test_a_card_that_is_not_there_is_told_at_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_cupy.installed(cards=0), pytest.raises(PlacementError, match="cudaErrorNoDevice"):
        af.data.numbers(3).prefetch(1, device="/gpu:0")
    with fake_cupy.installed(), pytest.raises(PlacementError, match="CUDA sees 1 cards and no number 3"):
        af.data.numbers(3).prefetch(1, device="/gpu:3")
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(PlacementError, match="CuPy cannot be imported") as caught:
        af.data.numbers(3).prefetch(1, device="/gpu:0")
    assert "defined at tests/data/values/test_page_locked.py:" in str(caught.value)
    assert "try:   pip install 'actorflow[gpu]'" in str(caught.value)


@pytest.mark.parametrize("device", ["gpu:0", "/tpu:0", 3, None])
def test_what_is_no_device_is_refused(device: Any) -> None:
    with pytest.raises(ConfigError, match="prefetch takes device as '/cpu:N' or '/gpu:N', got"):
        af.data.numbers(3).prefetch(1, device=device)
