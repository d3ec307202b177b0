"""The sample of the op that counts rows."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.ops.samples import Case, sample, several


@sample("common_length")
@st.composite
def common_length(draw: st.DrawFn) -> Case:
    rows = draw(st.integers(0, 3))
    rest = draw(st.lists(st.sampled_from([(), (2,), (1, 2)]), min_size=1, max_size=3))
    return Case(tuple(several(draw, [(rows, *shape) for shape in rest])))
