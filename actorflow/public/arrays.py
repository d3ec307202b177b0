"""Arrays beyond the array API: scatter, split, pad and what reads shapes.

Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there.
"""

from __future__ import annotations

import sys

from actorflow.ops.array.arrange import flatten, swapaxes
from actorflow.ops.array.broadcast import broadcast_like, sum_to
from actorflow.ops.array.identity import identity
from actorflow.ops.array.indexing import gather_nd
from actorflow.ops.array.join import split
from actorflow.ops.array.padding import pad
from actorflow.ops.array.scatter import (
    put_along_axis,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_nd,
    scatter_nd_add,
    scatter_nd_max,
    scatter_nd_min,
    scatter_nd_update,
    scatter_update,
    slice_update,
)
from actorflow.ops.array.select import (
    argwhere,
    boolean_mask,
    dynamic_partition,
    dynamic_stitch,
    invert_permutation,
    select,
)
from actorflow.ops.array.shape import reshape_like
from actorflow.ops.array.shape_queries import ensure_shape, rank, shape, size
from actorflow.ops.array.slicing import slice
from actorflow.ops.array.sort import topk

__all__ = [
    "argwhere", "boolean_mask", "broadcast_like", "dynamic_partition", "dynamic_stitch", "ensure_shape",
    "flatten", "gather_nd", "identity", "invert_permutation", "pad", "put_along_axis", "rank", "reshape_like",
    "scatter_add", "scatter_max", "scatter_min", "scatter_nd", "scatter_nd_add", "scatter_nd_max",
    "scatter_nd_min", "scatter_nd_update", "scatter_update", "select", "shape", "size", "slice",
    "slice_update", "split", "sum_to", "swapaxes", "topk",
]  # fmt: skip

TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from actorflow.runtime.name_hints import missing

        raise missing(sys.modules[__name__], name, __all__)
