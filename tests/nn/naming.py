"""What variables are called."""

from __future__ import annotations

from collections.abc import Sequence

import actorflow as af


def names(variables: Sequence[af.Variable]) -> list[str]:
    return [v.name for v in variables]
