from __future__ import annotations

import numpy as np

from actorflow import optim
from actorflow.values.arrays import as_dtype


def test_every_third_update_moves_by_the_mean_gradient() -> None:
    inner = optim.momentum(0.1)
    transform = optim.accumulate(inner, 3)
    params = {"w": np.zeros(2)}
    grads = np.random.default_rng(0).standard_normal((6, 2))
    state, inner_state = transform.init(params), inner.init(params)
    for i, g in enumerate(grads):
        deltas, state = transform.update({"w": g}, state, params)
        if i % 3 < 2:
            assert not deltas["w"].any()
            continue
        want, inner_state = inner.update({"w": grads[i - 2 : i + 1].mean(0)}, inner_state, params)
        np.testing.assert_allclose(deltas["w"], want["w"], rtol=1e-14)

    assert state["inner"]["count"] == 2


def test_sum_of_half_precision_does_not_overflow() -> None:
    transform = optim.accumulate(optim.scale(1.0), 4)
    params = {"w": np.full(1, 60000, as_dtype("float16"))}
    state = transform.init(params)
    for _ in range(3):
        _, state = transform.update(params, state, params)

    deltas, _ = transform.update(params, state, params)

    assert deltas["w"] == 60000
