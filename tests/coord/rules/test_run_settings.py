from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import ConfigError


@pytest.mark.parametrize("given", [0, -1, 2.5, float("nan"), True, "3", [3]])
@pytest.mark.parametrize("name", ["steps", "epochs", "missed"])
def test_what_is_counted_is_a_whole_number_above_0(name: str, given: Any) -> None:
    with pytest.raises(ConfigError, match=f"a run needs {name}, a whole number, of at least 1, got"):
        RunSettings(**{name: given})


@pytest.mark.parametrize("given", [0, -1.0, float("nan"), True, "3", None])
@pytest.mark.parametrize("name", ["heartbeat_s", "lease_s", "stuck_s", "gather_s", "fence_s"])
def test_times_are_seconds_above_0(name: str, given: Any) -> None:
    with pytest.raises(ConfigError, match=f"a run needs {name}, in seconds, above 0, got"):
        RunSettings(**{name: given})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"exactly_once": "no"}, "exactly_once is True or False, got 'no'"),
        ({"exactly_once": 1}, "exactly_once is True or False, got 1"),
        ({"start": (0, 0)}, r"a run starts at a Batch\(epoch, index\), got \(0, 0\)"),
        ({"before": -1}, "a run needs before, a whole number, of at least 0, got -1"),
        ({"agreement": "most"}, "agreement is 'all' or 'per_shard', got 'most'"),
        ({"agreement": ["all"]}, r"agreement is 'all' or 'per_shard', got \['all'\]"),
        ({"lease_s": 0.5}, "lease_s of at least heartbeat_s, got 0.5 and 1.0"),
    ],
)
def test_settings_that_cannot_mean_anything_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        RunSettings(**given)


def test_numbers_of_numpy_count() -> None:
    settings = RunSettings(steps=int(np.int64(3)), epochs=None, missed=2, lease_s=float(np.float32(4.0)))

    assert RunSettings(steps=np.int64(3), missed=np.int32(2), lease_s=np.float32(4.0)) == settings  # type: ignore[arg-type]
