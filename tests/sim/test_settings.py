from __future__ import annotations

import math

import numpy as np
import pytest

from actorflow.errors import ConfigError
from actorflow.sim.settings import check_number, check_whole


def test_whole_numbers_of_every_kind_pass_within_their_limits() -> None:
    for value in (1, 3, np.int64(2)):
        check_whole("n", value, 1, 3)
    for wrong in (0, 4, 2.0, True, "2", None, math.nan):
        with pytest.raises(ConfigError, match=r"^n is a whole number between 1 and 3, got "):
            check_whole("n", wrong, 1, 3)


def test_numbers_of_every_kind_pass_within_their_limits() -> None:
    for value in (0, 0.5, 1, np.float32(0.5), np.int64(1)):
        check_number("p", value, 0, 1)
    check_number("s", math.inf)
    for wrong in (-1, 1.5, math.nan, "1", None, True):
        with pytest.raises(ConfigError, match=r"^p is a number between 0 and 1, got "):
            check_number("p", wrong, 0, 1)
    with pytest.raises(ConfigError, match=r"(?s)^s is a finite number of at least 0, got inf.*pass 1"):
        check_number("s", math.inf, finite=True, hint="pass 1")
