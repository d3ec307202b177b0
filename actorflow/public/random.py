"""Random numbers: each run draws anew, and the seed of the session repeats it.

Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there.
"""

from __future__ import annotations

import sys

from actorflow.ops.math.random import random_exponential as exponential
from actorflow.ops.math.random import random_normal as normal
from actorflow.ops.math.random import random_truncated_normal as truncated_normal
from actorflow.ops.math.random import random_uniform as uniform
from actorflow.ops.math.random_choices import random_bernoulli as bernoulli
from actorflow.ops.math.random_choices import random_categorical as categorical
from actorflow.ops.math.random_choices import random_integers as integers
from actorflow.ops.math.random_choices import random_permutation as permutation
from actorflow.ops.math.random_choices import random_shuffle as shuffle

__all__ = [
    "bernoulli", "categorical", "exponential", "integers", "normal", "permutation", "shuffle",
    "truncated_normal", "uniform",
]  # fmt: skip

TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from actorflow.runtime.name_hints import missing

        raise missing(sys.modules[__name__], name, __all__)
