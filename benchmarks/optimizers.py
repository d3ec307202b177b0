"""One update of a large parameter by each rule, beside the step of torch.optim on one thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from actorflow import optim
from actorflow.optim import Transform
from benchmarks.harness import Contest, Peer, Round, Size, Unit, absent
from benchmarks.registry import benchmark

ELEMENTS = 1_000_000
UPDATES = 20
NOTE = "in place, foreach=False, one thread; ours makes new arrays, for readers may hold the old ones"

RULES: dict[str, tuple[Transform, str, dict[str, Any]]] = {
    "sgd": (optim.sgd(1e-3), "SGD", {"lr": 1e-3}),
    "momentum": (optim.momentum(1e-3), "SGD", {"lr": 1e-3, "momentum": 0.9}),
    "nesterov": (
        optim.momentum(1e-3, nesterov=True), "SGD", {"lr": 1e-3, "momentum": 0.9, "nesterov": True},
    ),
    "adagrad": (optim.adagrad(1e-3), "Adagrad", {"lr": 1e-3}),
    "adadelta": (optim.adadelta(), "Adadelta", {}),
    "rmsprop": (optim.rmsprop(1e-3), "RMSprop", {"lr": 1e-3}),
    "rmsprop_centred": (
        optim.rmsprop(1e-3, beta=0.9, centred=True), "RMSprop",
        {"lr": 1e-3, "momentum": 0.9, "centered": True},
    ),
    "adam": (optim.adam(), "Adam", {}),
    "amsgrad": (optim.amsgrad(), "Adam", {"amsgrad": True}),
    "adamw": (optim.adamw(), "AdamW", {}),
    "adamax": (optim.adamax(), "Adamax", {}),
    "nadam": (optim.nadam(), "NAdam", {}),
    "lion": (optim.lion(), "", {}),
    "ftrl": (optim.ftrl(), "", {}),
    "lamb": (optim.lamb(), "", {}),
    "lbfgs": (optim.lbfgs(0.01), "LBFGS", {"lr": 0.01, "max_iter": 1, "history_size": 10}),
}  # fmt: skip
"""Ours, the optimizer of torch.optim if there is one, and its settings."""


@benchmark("optimizers", "one update of 1,000,000 float32 elements, beside torch.optim on one thread")
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """One contest a rule."""
    torch = import_module("torch") if find_spec("torch") is not None else None
    if torch is not None:
        torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    p, g = rng.standard_normal((2, ELEMENTS)).astype(np.float32)
    n = size.operations(UPDATES)
    full = "its gradient is the parameter, so that every step has curvature and the history is full"
    for name, (transform, theirs, options) in RULES.items():
        slope = None if name == "lbfgs" else g
        if not theirs:
            peer = Peer("a copy of the parameter", timed(p.copy), note="torch has no such rule")
        elif torch is None:
            peer = absent(f"torch.optim.{theirs}", "torch")
        else:
            peer = Peer(f"torch.optim.{theirs}", timed(step_of(torch, theirs, options, p, slope)), note=NOTE)
        ours = timed(update_of(transform, p, slope))
        yield Contest(f"{name}_ms", Unit.MILLISECONDS, n, ours, [peer], note=full if slope is None else "")


def update_of(transform: Transform, p: np.ndarray, g: np.ndarray | None) -> Callable[[], None]:
    """Returns a function that makes one update of ours, new parameters included.

    Without a gradient g, it is the parameter itself.
    """
    held: dict[str, Any] = {"params": {"w": p}, "state": transform.init({"w": p})}

    def update() -> None:
        params = held["params"]
        deltas, held["state"] = transform.update(params if g is None else {"w": g}, held["state"], params)
        held["params"] = {"w": params["w"] + deltas["w"]}

    return update


def step_of(
    torch: Any, name: str, options: dict[str, Any], p: np.ndarray, g: np.ndarray | None
) -> Callable[[], None]:
    """Returns a function that makes one step of torch's; see `update_of`."""
    parameter = torch.nn.Parameter(torch.from_numpy(p.copy()))
    parameter.grad = parameter.detach() if g is None else torch.from_numpy(g.copy())
    plain = {} if name == "LBFGS" else {"foreach": False}
    optimizer = getattr(torch.optim, name)([parameter], **options, **plain)
    zero = torch.zeros(())
    return lambda: optimizer.step(lambda: zero)


def timed(function: Callable[[], Any]) -> Round:
    """Returns the round that calls `function` n times."""

    async def run(n: int) -> float:
        start = perf_counter()
        for _ in range(n):
            function()
        return perf_counter() - start

    return run
