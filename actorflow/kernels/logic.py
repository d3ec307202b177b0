"""Kernels of `ops.logic`: comparisons, bool logic and choice, each one numpy call."""

from __future__ import annotations

import numpy as np

from actorflow.kernels.registry import kernel

kernel("equal")(np.equal)
kernel("not_equal")(np.not_equal)
kernel("less")(np.less)
kernel("less_equal")(np.less_equal)
kernel("greater")(np.greater)
kernel("greater_equal")(np.greater_equal)
kernel("logical_and")(np.logical_and)
kernel("logical_or")(np.logical_or)
kernel("logical_not")(np.logical_not)
kernel("where")(np.where)
