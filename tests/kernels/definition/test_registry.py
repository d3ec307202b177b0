"""The table of kernels: one function for every library, and the better one for one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from actorflow.errors import PlacementError
from actorflow.kernels.definition.registry import EVERY, find, kernel, register_named, table
from tests.kernels import fake_cupy


@pytest.fixture
def cupy() -> Iterator[Any]:
    with fake_cupy.installed() as made:
        yield made


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actorflow.kernels.definition.registry._TABLE", dict(table()))
    monkeypatch.setattr("actorflow.kernels.definition.registry._FOUND", {})


def test_numpy_gets_the_function_itself_and_another_library_is_bound(cupy: Any) -> None:
    @kernel("test_library")
    def which(x: Any, *, xp: Any = np) -> Any:
        return xp

    assert find("test_library").function is which
    assert (
        find("test_library", "cupy").function(1).exp is cupy.exp
    )  # as `kernels.definition.cupy_compatibility` mends it


def test_a_kernel_that_needs_nothing_of_the_library_serves_all_as_it_is(cupy: Any) -> None:
    @kernel("test_plain")
    def plain(x: Any) -> Any:
        return x

    assert find("test_plain").function is find("test_plain", "cupy").function is plain


def test_a_kernel_for_one_library_goes_before_that_for_all(cupy: Any) -> None:
    kernel("test_choice")(lambda x: "every")
    kernel("test_choice", only="numpy")(lambda x: "numpy")

    assert find("test_choice").function(1) == "numpy"
    assert find("test_choice", "cupy").function(1) == "every"


def test_a_named_kernel_is_the_function_of_the_library(cupy: Any) -> None:
    register_named("test_root", "sqrt")

    assert find("test_root").function is np.sqrt
    assert find("test_root", "cupy").function is cupy.sqrt
    assert table()["test_root", EVERY].function(4.0) == 2.0


def test_a_missing_kernel_says_where_there_is_one(cupy: Any) -> None:
    kernel("test_host_only", only="numpy")(lambda x: x)

    with pytest.raises(PlacementError, match="no kernel for 'test_host_only' on cupy; numpy has one"):
        find("test_host_only", "cupy")
    with pytest.raises(PlacementError, match="no kernel for 'test_nowhere' on numpy; no library has one"):
        find("test_nowhere")


def test_an_unknown_library_is_said() -> None:
    with pytest.raises(PlacementError, match="no array library is named 'torch'; there are numpy and cupy"):
        find("identity", "torch")
