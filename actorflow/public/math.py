"""Functions of numbers beyond the array API: special functions, segments and statistics.

Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there.
"""

from __future__ import annotations

import sys

from actorflow.ops.array.identity import check_numerics
from actorflow.ops.array.sets import bincount, histogram
from actorflow.ops.math.arithmetic import (
    divide_no_nan,
    fmod,
    lerp,
    multiply_no_nan,
    rsqrt,
    squared_difference,
)
from actorflow.ops.math.complex import angle, complex
from actorflow.ops.math.exponential import cbrt, exp2
from actorflow.ops.math.reduce import count
from actorflow.ops.math.rounding import nan_to_num
from actorflow.ops.math.scan import cumulative_max, cumulative_min, linear_recurrence, trapezoid
from actorflow.ops.math.segment import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
    unsorted_segment_max,
    unsorted_segment_mean,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sum,
)
from actorflow.ops.math.special import digamma, erf, erfc, erfinv, lgamma, polygamma
from actorflow.ops.math.statistics import logsumexp, median, quantile
from actorflow.ops.math.trigonometry import deg2rad, rad2deg, sinc

__all__ = [
    "angle", "bincount", "cbrt", "check_numerics", "complex", "count", "cumulative_max", "cumulative_min",
    "deg2rad", "digamma", "divide_no_nan", "erf", "erfc", "erfinv", "exp2", "fmod", "histogram", "lerp",
    "lgamma", "linear_recurrence", "logsumexp", "median", "multiply_no_nan", "nan_to_num", "polygamma",
    "quantile", "rad2deg", "rsqrt", "segment_max", "segment_mean", "segment_min", "segment_prod",
    "segment_sum", "sinc", "squared_difference", "trapezoid", "unsorted_segment_max", "unsorted_segment_mean",
    "unsorted_segment_min", "unsorted_segment_prod", "unsorted_segment_sum",
]  # fmt: skip

TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from actorflow.runtime.name_hints import missing

        raise missing(sys.modules[__name__], name, __all__)
