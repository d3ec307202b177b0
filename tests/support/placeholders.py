"""Placeholders in one word, for tests of what ops make of shapes and dtypes."""

from __future__ import annotations

import actorflow as af
from actorflow.graph.builder import Tensor


def f32(*shape: int | None) -> Tensor:
    """A placeholder of float32, with these sizes; None is one that is not known."""
    return af.placeholder("float32", shape)


def i32(*shape: int | None) -> Tensor:
    """A placeholder of int32, with these sizes."""
    return af.placeholder("int32", shape)


def anything(dtype: str = "float32") -> Tensor:
    """A placeholder of which not even the rank is known."""
    return af.placeholder(dtype, None)
