"""Every kernel on a card against numpy: each op, each dtype, forward and gradient, small and larger.

The cases are those of the conformance suite (0-d and empty arrays among them), in C order and strided.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from actorflow.values.arrays import as_dtype
from tests.gpu import comparing
from tests.ops.samples import SAMPLES, Case

pytestmark = pytest.mark.gpu

for path in sorted((Path(__file__).parents[1] / "ops").glob("samples_*.py")):
    import_module(f"tests.ops.{path.stem}")

# The same cases every time, and no shrinking: every new shape may compile a kernel.
FEW = settings(
    max_examples=8,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
FEWER = settings(FEW, max_examples=4)
HALVES = ("float16", "bfloat16")


@pytest.mark.parametrize(("op", "dtype"), [(op, d) for op in comparing.OPS for d in SAMPLES[op].dtypes])
def test_a_kernel_computes_on_a_card_what_numpy_does(
    op: str, dtype: str, record_property: Callable[..., None]
) -> None:
    """A dtype that the op does not take counts 0 cases."""
    compared = []

    @FEW
    @given(drawn=SAMPLES[op].cases)
    def law(drawn: Case) -> None:
        case = comparing.converted(drawn, dtype)
        if comparing.takes(op, case):
            comparing.compare(op, case)
            compared.append(case)

    law()
    record_property("compared", (op, dtype, len(compared)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", comparing.DIFFERENTIABLE)
def test_a_gradient_computes_on_a_card_what_numpy_does(op: str, dtype: str) -> None:
    @FEWER
    @given(drawn=SAMPLES[op].cases)
    def law(drawn: Case) -> None:
        comparing.compare_gradient(op, drawn, dtype)

    law()


def numbers(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(low, high, shape)


IMAGES, FILTERS = numbers(4, 17, 19, 8), numbers(3, 3, 8, 16)
SAME = {"strides": (1, 1), "padding": "SAME", "dilations": (1, 1), "groups": 1}
VALID = {"strides": (2, 2), "padding": "VALID", "dilations": (1, 1), "groups": 1}
GROUPS = {"strides": (2, 1), "padding": ((1, 0), (2, 1)), "dilations": (1, 2), "groups": 4}
POOL = {"size": (3, 3), "strides": (2, 2), "padding": "SAME"}
SQUARE = numbers(3, 60, 60) / 60 + np.eye(60)
SYMMETRIC = (SQUARE + SQUARE.mT) / 2
SORTED = {"axis": -1, "descending": False}
RUNNING = {"axis": -1, "include_initial": False}
OFTEN = np.random.default_rng(1).integers(-7, 7, 5000).astype("int64")
LARGER: list[tuple[str, Case]] = [
    *((op, Case((numbers(257, 130),))) for op in ("exp", "tanh", "sigmoid", "relu")),
    *((op, Case((numbers(257, 130), numbers(130)))) for op in ("add", "multiply", "maximum")),
    ("matmul", Case((numbers(200, 300), numbers(100, 300)), {"transpose_a": False, "transpose_b": True})),
    ("matmul", Case((numbers(5, 30, 20), numbers(5, 30, 40)), {"transpose_a": True, "transpose_b": False})),
    ("sum", Case((numbers(300, 500),), {"axis": (0,), "keepdims": False})),
    ("mean", Case((numbers(300, 500),), {"axis": None, "keepdims": True})),
    ("max", Case((numbers(30, 50, 7),), {"axis": (1, 2), "keepdims": False})),
    ("argmax", Case((numbers(64, 1000),), {"axis": -1, "keepdims": False})),
    ("softmax", Case((numbers(64, 1000, low=-9, high=9),), {"axis": -1})),
    ("log_softmax", Case((numbers(64, 1000, low=-9, high=9),), {"axis": 0})),
    ("softmax_cross_entropy", Case((numbers(64, 1000), np.arange(64, dtype="int32")))),
    ("softmax_cross_entropy_grad", Case((numbers(64, 1000), np.arange(64, dtype="int32"), numbers(64)))),
    ("gather", Case((numbers(7, 33), OFTEN), {"axis": 0})),
    ("gather_grad", Case((numbers(5000, 33), numbers(7, 33), OFTEN), {"axis": 0})),
    ("gather_grad", Case((numbers(3, 5000, 2), numbers(3, 7, 2), OFTEN), {"axis": 1})),
    *(("conv", Case((IMAGES, FILTERS), attrs)) for attrs in (SAME, VALID)),
    ("conv", Case((IMAGES, numbers(3, 3, 2, 16)), GROUPS)),
    ("conv_transpose", Case((IMAGES, numbers(3, 3, 2, 8)), GROUPS)),
    ("conv_grad_input", Case((numbers(4, 17, 19, 16), FILTERS, IMAGES), SAME)),
    ("conv_grad_filter", Case((IMAGES, numbers(4, 8, 9, 16), FILTERS), VALID)),
    ("max_pool", Case((IMAGES,), POOL)),
    ("max_pool_grad", Case((IMAGES, numbers(4, 9, 10, 8)), POOL)),
    *((op, Case((numbers(257, 130),))) for op in ("erf", "erfc", "sin", "expm1", "silu", "softplus", "cbrt")),
    *((op, Case((numbers(257, 130, low=0.5, high=9),))) for op in ("lgamma", "digamma", "log2", "rsqrt")),
    ("sort", Case((numbers(64, 1000),), SORTED)),
    ("argsort", Case((np.floor(numbers(64, 1000, high=9)),), SORTED)),
    ("cumulative_sum", Case((numbers(30, 100),), RUNNING)),
    ("logsumexp", Case((numbers(64, 1000, low=-9, high=9),), {"axis": (1,), "keepdims": False})),
    ("unsorted_segment_sum", Case((numbers(5000, 3), OFTEN % 7), {"num_segments": 7})),
    ("scatter_add", Case((numbers(7, 33), OFTEN, numbers(5000, 33)), {"axis": 0})),
    ("take_along_axis", Case((numbers(7, 5000), OFTEN[None].repeat(7, 0)), {"axis": 1})),
    ("solve", Case((SQUARE, numbers(3, 60, 5)))),
    ("inv", Case((SQUARE,))),
    ("cholesky", Case((SYMMETRIC,), {"upper": False})),
    ("eigvalsh", Case((SYMMETRIC,))),
    ("svdvals", Case((numbers(3, 50, 40),))),
    ("matrix_exp", Case((SQUARE,))),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", *HALVES])
@pytest.mark.parametrize(("op", "case"), LARGER, ids=[f"{k}-{op}" for k, (op, _) in enumerate(LARGER)])
def test_a_larger_case_computes_on_a_card_what_numpy_does(op: str, case: Case, dtype: str) -> None:
    """Halves against float32, which both come from: numpy's own sums of thousands of halves are worse."""
    typed = comparing.converted(case, dtype)
    if dtype not in HALVES:
        comparing.compare(op, typed)
        return

    wide: Any = comparing.host(op, Case(tuple(_widened(a, dtype) for a in typed.inputs), case.attrs))
    made = comparing.on_card(op, typed)

    comparing.near(made, wide.astype(made.dtype), f"{op} {dtype} {case.attrs}", times=2)


def _widened(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.astype("float32") if array.dtype == as_dtype(dtype) else array
