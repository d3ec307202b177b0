"""Kernels of `ops.source`: the likes of another array."""

from __future__ import annotations

import numpy as np

from actorflow.kernels.registry import kernel

kernel("zeros_like")(np.zeros_like)
kernel("ones_like")(np.ones_like)
