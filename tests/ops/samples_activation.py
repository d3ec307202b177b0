"""Samples of activation functions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.ops.samples import Case, one, sample, shapes, values

FLOATS = ("float32", "float64", "float16", "bfloat16")

for op in ("silu", "softplus", "log_sigmoid", "softsign", "mish"):
    sample(op, dtypes=FLOATS)(lambda: one(-4, 4))
sample("hardswish", dtypes=FLOATS)(lambda: one(-5, 5))


def given(op: str, least: float, most: float, /, **choices: list[Any]) -> None:
    """Registers for `op` the sample that draws one input from a range, and each attribute from a list."""

    @sample(op, dtypes=FLOATS)
    @st.composite
    def drawn(draw: st.DrawFn) -> Case:
        attrs = {name: draw(st.sampled_from(listed)) for name, listed in choices.items()}
        return Case((values(draw, draw(shapes(empty=True)), least, most),), attrs)


given("leaky_relu", -2, 2, slope=[0.01, 0.2, 1.5, -0.5])
given("hardtanh", -2, 2, low=[-1.0, -0.5], high=[1.0, 1.5])
given("hardsigmoid", -5, 5, slope=[1 / 6, 0.2])
given("elu", -2, 2, alpha=[1.0, 1.67], scale=[1.0, 1.05], rate=[1.0, 0.5])
given("gelu", -4, 4, approximate=[False, True])
