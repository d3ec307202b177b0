"""Kernels are functions from arrays to arrays; importing the package fills their registry."""

from __future__ import annotations

from actorflow.kernels.array import (
    arrange,
    broadcast,
    fill,
    indexing,
    join,
    padding,
    scatter,
    sets,
    shape,
    sort,
)
from actorflow.kernels.array import constants as source
from actorflow.kernels.array import identity as passing
from actorflow.kernels.array import identity_cast as cast
from actorflow.kernels.array import indexed_slices as slices
from actorflow.kernels.array import select as choose
from actorflow.kernels.array import shape_queries as facts
from actorflow.kernels.array import slicing as array
from actorflow.kernels.control import tensor_list as lists
from actorflow.kernels.linalg import contraction, diagonal, powers, spectrum, systems
from actorflow.kernels.linalg import factorisations as factor
from actorflow.kernels.linalg import products as linalg
from actorflow.kernels.math import (
    arithmetic,
    bits,
    complex,
    elementwise,
    exponential,
    logic,
    random,
    reduce,
    rounding,
    scan,
    segment,
    statistics,
    trigonometry,
)
from actorflow.kernels.math import random_choices as draws
from actorflow.kernels.math import special_erf as erf
from actorflow.kernels.math import special_float32 as single
from actorflow.kernels.math import special_gamma as gamma
from actorflow.kernels.nn import (
    activation,
    activation_float32,
    attention,
    conv,
    conv_depthwise,
    conv_portable,
    ctc,
    losses,
    normalise,
    patches,
    recurrent,
    resize,
    sequence,
)
from actorflow.kernels.nn import adaptive_pool as adaptive
from actorflow.kernels.nn import conv_im2col as conv_blocks
from actorflow.kernels.nn import max_pool as pool
from actorflow.kernels.nn import max_pool_portable as pooling
from actorflow.kernels.nn import normalise_numpy as lanes
from actorflow.kernels.nn import softmax as nn
from actorflow.kernels.nn import softmax_portable as portable
from actorflow.kernels.nn import space_depth as blocks
from actorflow.kernels.text import encoding, records
from actorflow.kernels.text import strings as text

__all__ = [
    "activation",
    "activation_float32",
    "adaptive",
    "arithmetic",
    "arrange",
    "array",
    "attention",
    "bits",
    "blocks",
    "broadcast",
    "cast",
    "choose",
    "complex",
    "contraction",
    "conv",
    "conv_blocks",
    "conv_depthwise",
    "conv_portable",
    "ctc",
    "diagonal",
    "draws",
    "elementwise",
    "encoding",
    "erf",
    "exponential",
    "factor",
    "facts",
    "fill",
    "gamma",
    "indexing",
    "join",
    "lanes",
    "linalg",
    "lists",
    "logic",
    "losses",
    "nn",
    "normalise",
    "padding",
    "passing",
    "patches",
    "pool",
    "pooling",
    "portable",
    "powers",
    "random",
    "records",
    "recurrent",
    "reduce",
    "resize",
    "rounding",
    "scan",
    "scatter",
    "segment",
    "sequence",
    "sets",
    "shape",
    "single",
    "slices",
    "sort",
    "source",
    "spectrum",
    "statistics",
    "systems",
    "text",
    "trigonometry",
]
