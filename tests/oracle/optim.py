"""Our optimizers and schedules beside those of PyTorch, update by update: `make oracle-optim`.

Three problems, in float64. In the first both sides are sent the same drawn gradients, which no
parameter has a say in; in the second their magnitudes are drawn too, from 1e-3 to 1e3. In the third each
side takes the gradient of a small network where its own parameters are, so that a difference would
grow. Then come sparse gradients, and schedules. The rules that torch does not have, FTRL, LAMB and
Lion, are compared with their papers in tests/optim/test_formulas.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from actorflow import optim
from actorflow.optim import Schedule, SparseRows, Transform, schedules

STEPS = 100
LIMIT = 1e-12
"""Of the largest difference over the largest parameter: rounding alone gives 1e-16 an update."""

LEAST = 120
"""Comparisons that there must be, so that an empty run is no success."""

SEED = 20
Arrays = dict[str, np.ndarray]
SHAPES = {"w1": (5, 8), "b1": (8,), "w2": (8, 3), "b2": (3,)}


@dataclass(frozen=True, slots=True)
class Pair:
    """A rule of ours and what makes torch's.

    Attributes:
        theirs: Takes the module torch and the parameters, returns torch's optimizer.
        limits: What torch does to gradients before a step, if anything.
        limit: Of the difference.
        swings: Whether the rule leaps about a minimum, so that first parameters 4e-16 apart end more than 1e-6
            apart in the network: then it is left out there, and sent gradients alone.
    """

    title: str
    ours: Transform
    theirs: Callable[[Any, Any], Any]
    limits: Callable[[Any, Any], Any] = lambda torch, params: None
    limit: float = LIMIT
    swings: bool = False


def of(name: str, **options: Any) -> Callable[[Any, Any], Any]:
    """Returns what makes the optimizer `torch.optim.NAME`."""
    return lambda torch, params: getattr(torch.optim, name)(params, foreach=False, **options)


def without_foreach(name: str, **options: Any) -> Callable[[Any, Any], Any]:
    """The same for those that do not take the option."""
    return lambda torch, params: getattr(torch.optim, name)(params, **options)


NORM: Callable[[Any, Any], Any] = lambda torch, params: torch.nn.utils.clip_grad_norm_(params, 0.5)  # noqa: E731
VALUE: Callable[[Any, Any], Any] = lambda torch, params: torch.nn.utils.clip_grad_value_(params, 0.1)  # noqa: E731


def each_norm(torch: Any, params: Any) -> None:
    """Clips every gradient by its own norm."""
    for p in params:
        torch.nn.utils.clip_grad_norm_([p], 0.3)


PAIRS = [
    Pair("SGD", optim.sgd(0.05), of("SGD", lr=0.05)),
    Pair(
        "SGD weight_decay",
        optim.chain(optim.l2(0.1), optim.sgd(0.05)),
        of("SGD", lr=0.05, weight_decay=0.1),
    ),
    Pair("SGD momentum", optim.momentum(0.02, 0.9), of("SGD", lr=0.02, momentum=0.9)),
    Pair(
        "SGD momentum weight_decay",
        optim.chain(optim.l2(0.1), optim.momentum(0.02, 0.9)),
        of("SGD", lr=0.02, momentum=0.9, weight_decay=0.1),
    ),
    Pair(
        "SGD nesterov",
        optim.momentum(0.02, 0.9, nesterov=True),
        of("SGD", lr=0.02, momentum=0.9, nesterov=True),
    ),
    Pair(
        "SGD maximize",
        optim.chain(optim.scale(-1.0), optim.sgd(0.001)),
        of("SGD", lr=0.001, maximize=True),
    ),
    Pair("Adagrad", optim.adagrad(0.1), of("Adagrad", lr=0.1)),
    Pair(
        "Adagrad lr_decay initial",
        optim.adagrad(schedules.inverse_time(0.1, 0.05), initial=0.2, eps=1e-6),
        of("Adagrad", lr=0.1, lr_decay=0.05, initial_accumulator_value=0.2, eps=1e-6),
    ),
    Pair("Adadelta", optim.adadelta(), of("Adadelta", lr=1.0)),
    Pair("Adadelta rho eps", optim.adadelta(0.5, 0.95, 1e-4), of("Adadelta", lr=0.5, rho=0.95, eps=1e-4)),
    Pair("RMSprop", optim.rmsprop(0.01, 0.99), of("RMSprop", lr=0.01, alpha=0.99)),
    Pair(
        "RMSprop centered",
        optim.rmsprop(0.01, 0.9, centred=True),
        of("RMSprop", lr=0.01, alpha=0.9, centered=True),
        limit=1e-10,  # the variance of the first updates is a difference of nearly equal numbers
    ),
    Pair(
        "RMSprop momentum",
        optim.rmsprop(0.003, 0.9, beta=0.8),
        of("RMSprop", lr=0.003, alpha=0.9, momentum=0.8),
    ),
    Pair(
        "RMSprop centered momentum",
        optim.rmsprop(0.003, 0.9, beta=0.8, centred=True),
        of("RMSprop", lr=0.003, alpha=0.9, momentum=0.8, centered=True),
        limit=1e-10,
    ),
    Pair("Adam", optim.adam(0.02), of("Adam", lr=0.02)),
    Pair("Adam betas eps", optim.adam(0.02, 0.7, 0.9, 1e-3), of("Adam", lr=0.02, betas=(0.7, 0.9), eps=1e-3)),
    Pair(
        "Adam weight_decay",
        optim.chain(optim.l2(0.1), optim.adam(0.02)),
        of("Adam", lr=0.02, weight_decay=0.1),
    ),
    Pair("Adam amsgrad", optim.amsgrad(0.02, beta2=0.9), of("Adam", lr=0.02, betas=(0.9, 0.9), amsgrad=True)),
    Pair("AdamW", optim.adamw(0.02, decay=0.1), of("AdamW", lr=0.02, weight_decay=0.1)),
    Pair(
        "AdamW as a chain",
        optim.chain(optim.adam(0.02), optim.weight_decay(0.02 * 0.1)),
        of("AdamW", lr=0.02, weight_decay=0.1),
    ),
    Pair("NAdam", optim.nadam(0.02), of("NAdam", lr=0.02)),
    Pair(
        "NAdam betas momentum_decay",
        optim.nadam(0.02, 0.8, 0.95, 1e-6, ramp=0.1),
        of("NAdam", lr=0.02, betas=(0.8, 0.95), eps=1e-6, momentum_decay=0.1),
        limit=1e-8,  # near the minimum it swings: first parameters 4e-16 apart end 6e-10 apart
    ),
    Pair("Adamax", optim.adamax(0.02), of("Adamax", lr=0.02)),
    *(
        Pair(
            f"Adam betas {b1} {b2}",
            optim.adam(0.02, b1, b2),
            of("Adam", lr=0.02, betas=(b1, b2)),
            swings=b1 > 0,
        )
        for b1, b2 in ((0.0, 0.999), (0.9, 0.0), (0.0, 0.0), (0.3, 0.3), (0.0, 0.5))
    ),
    Pair(
        "Adam amsgrad betas 0",
        optim.amsgrad(0.02, 0.0, 0.9),
        of("Adam", lr=0.02, betas=(0.0, 0.9), amsgrad=True),
    ),
    Pair(
        "AdamW betas 0",
        optim.adamw(0.02, 0.0, 0.0, decay=0.1),
        of("AdamW", lr=0.02, betas=(0.0, 0.0), weight_decay=0.1),
    ),
    Pair("NAdam betas 0", optim.nadam(0.02, 0.0, 0.9), of("NAdam", lr=0.02, betas=(0.0, 0.9)), swings=True),
    Pair("Adamax betas 0", optim.adamax(0.02, 0.0, 0.0), of("Adamax", lr=0.02, betas=(0.0, 0.0))),
    Pair("RMSprop alpha 0", optim.rmsprop(0.01, 0.0), of("RMSprop", lr=0.01, alpha=0.0)),
    Pair(
        "RMSprop alpha 0 momentum",
        optim.rmsprop(0.003, 0.0, beta=0.8),
        of("RMSprop", lr=0.003, alpha=0.0, momentum=0.8),
    ),
    Pair("Adadelta rho 0", optim.adadelta(rho=0.0), of("Adadelta", lr=1.0, rho=0.0)),
    Pair(
        "LBFGS fixed rate",
        optim.lbfgs(0.1, history=7),
        without_foreach("LBFGS", lr=0.1, max_iter=1, history_size=7, tolerance_grad=0, tolerance_change=0),
        limit=1e-6,  # drawn gradients make pairs of little curvature, which amplify the last digits
    ),
    Pair(
        "SGD clip_grad_norm_",
        optim.chain(optim.clip_by_global_norm(0.5), optim.sgd(0.1)),
        of("SGD", lr=0.1),
        NORM,
        limit=1e-5,  # torch divides by the norm + 1e-6
    ),
    Pair(
        "SGD clip_grad_norm_ each",
        optim.chain(optim.clip_by_norm(0.3), optim.sgd(0.1)),
        of("SGD", lr=0.1),
        each_norm,
        limit=1e-5,
    ),
    Pair(
        "Adam clip_grad_value_",
        optim.chain(optim.clip_by_value(0.1), optim.adam(0.02)),
        of("Adam", lr=0.02),
        VALUE,
    ),
]


def schedule_of(name: str, **options: Any) -> Callable[[Any, Any], Any]:
    """Returns what makes the schedule `torch.optim.lr_scheduler.NAME`."""
    return lambda torch, optimizer: getattr(torch.optim.lr_scheduler, name)(optimizer, **options)


def warmed(torch: Any, optimizer: Any) -> Any:
    """A line from 0.24 of the rate to the whole over 20 updates, and half a cosine over 80."""
    family = torch.optim.lr_scheduler
    rise = family.LinearLR(optimizer, start_factor=0.24, end_factor=1.0, total_iters=19)
    fall = family.CosineAnnealingLR(optimizer, T_max=80)
    return family.SequentialLR(optimizer, [rise, fall], milestones=[20])


SCHEDULES: list[tuple[str, Schedule, Callable[[Any, Any], Any]]] = [
    ("ConstantLR", schedules.join([0.05, 0.1], [30]), schedule_of("ConstantLR", factor=0.5, total_iters=30)),
    ("StepLR", schedules.step(0.1, 0.5, 15), schedule_of("StepLR", step_size=15, gamma=0.5)),
    (
        "MultiStepLR",
        schedules.piecewise([10, 40, 41], [0.1, 0.01, 0.001, 0.0001]),
        schedule_of("MultiStepLR", milestones=[10, 40, 41], gamma=0.1),
    ),
    ("ExponentialLR", schedules.exponential(0.1, 0.97, 1), schedule_of("ExponentialLR", gamma=0.97)),
    (
        "LinearLR",
        schedules.linear(0.03, 50, 0.1),
        schedule_of("LinearLR", start_factor=0.3, end_factor=1.0, total_iters=50),
    ),
    (
        "PolynomialLR",
        schedules.polynomial(0.1, 80, power=2.5),
        schedule_of("PolynomialLR", total_iters=80, power=2.5),
    ),
    (
        "CosineAnnealingLR",
        schedules.cosine(0.1, 100, 0.01),
        schedule_of("CosineAnnealingLR", T_max=100, eta_min=0.01),
    ),
    (
        "CosineAnnealingWarmRestarts",
        schedules.cosine_restarts(0.1, 12, 2, 0.01),
        schedule_of("CosineAnnealingWarmRestarts", T_0=12, T_mult=2, eta_min=0.01),
    ),
    (
        "CosineAnnealingWarmRestarts even",
        schedules.cosine_restarts(0.1, 12),
        schedule_of("CosineAnnealingWarmRestarts", T_0=12),
    ),
    ("OneCycleLR", schedules.one_cycle(0.1, 100), schedule_of("OneCycleLR", max_lr=0.1, total_steps=100)),
    (
        "OneCycleLR pct_start",
        schedules.one_cycle(0.1, 100, 0.13, 4.0, 50.0),
        schedule_of(
            "OneCycleLR", max_lr=0.1, total_steps=100, pct_start=0.13, div_factor=4.0, final_div_factor=50.0
        ),
    ),
    (
        "SequentialLR LinearLR CosineAnnealingLR",  # 19 updates after the first one the rise is over
        schedules.warmup(20, schedules.cosine(0.1, 80), 0.02),
        warmed,
    ),
    (
        "LambdaLR inverse_sqrt",
        schedules.inverse_sqrt(0.1, 20),
        lambda torch, optimizer: torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda n: min((n + 1) / 20, (20 / (n + 1)) ** 0.5)
        ),
    ),
]


def drawn(rng: np.random.Generator) -> Arrays:
    """Returns parameters, or gradients, of drawn numbers."""
    return {name: rng.standard_normal(shape) for name, shape in SHAPES.items()}


def network_slope(xs: np.ndarray, ys: np.ndarray, p: Arrays) -> Arrays:
    """The gradient of the mean square error of a network of two layers, written out."""
    hidden = np.tanh(xs @ p["w1"] + p["b1"])
    error = 2 * (hidden @ p["w2"] + p["b2"] - ys) / ys.size
    back = (error @ p["w2"].T) * (1 - hidden**2)
    return {"w1": xs.T @ back, "b1": back.sum(0), "w2": hidden.T @ error, "b2": error.sum(0)}


Slopes = Callable[[], Callable[[Arrays], Arrays]]
"""() -> a function from parameters to their gradient, anew for each side."""


def problems() -> Iterator[tuple[str, Slopes]]:
    """Yields the three problems by name."""

    def sent() -> Callable[[Arrays], Arrays]:
        rng = np.random.default_rng(SEED)
        return lambda params: drawn(rng)

    def network() -> Callable[[Arrays], Arrays]:
        rng = np.random.default_rng(SEED)
        xs = rng.standard_normal((32, 5))
        ys = np.sin(xs[:, :3]) + 0.1 * rng.standard_normal((32, 3))
        return lambda params: network_slope(xs, ys, params)

    def wide() -> Callable[[Arrays], Arrays]:
        rng = np.random.default_rng(SEED)
        return lambda params: {n: g * 10.0 ** rng.uniform(-3, 3, g.shape) for n, g in drawn(rng).items()}

    yield "drawn", sent
    yield "magnitudes", wide
    yield "network", network


def our_way(transform: Transform, slopes: Slopes) -> list[Arrays]:
    """Returns the parameters after each update of ours."""
    slope, params, way = slopes(), drawn(np.random.default_rng(SEED + 1)), []
    state = transform.init(params)
    for _ in range(STEPS):
        deltas, state = transform.update(slope(params), state, params)
        params = {name: p + deltas[name] for name, p in params.items()}
        way.append(params)
    return way


def their_way(torch: Any, pair: Pair, slopes: Slopes) -> list[Arrays]:
    """Returns the parameters after each step of torch."""
    slope, way = slopes(), []
    params = {
        n: torch.nn.Parameter(torch.from_numpy(p)) for n, p in drawn(np.random.default_rng(SEED + 1)).items()
    }
    optimizer = pair.theirs(torch, list(params.values()))
    for _ in range(STEPS):
        grads = slope({name: p.detach().numpy().copy() for name, p in params.items()})
        for name, p in params.items():
            p.grad = torch.from_numpy(grads[name])
        pair.limits(torch, list(params.values()))
        optimizer.step(lambda: torch.zeros(()))
        way.append({name: p.detach().numpy().copy() for name, p in params.items()})
    return way


def difference(ours: Sequence[Arrays], theirs: Sequence[Arrays]) -> float:
    """Returns the largest difference of any element after any update, over the largest parameter."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        size = max(float(np.abs(p).max()) for p in b.values())
        found = float(np.max([np.abs(a[name] - b[name]).max() for name in b]))  # NaN too, unlike max
        worst = max(worst, found / size) if np.isfinite(found) else np.inf
    return worst


ROWS: list[tuple[str, Transform, Callable[[Any, Any], Any]]] = [
    ("SGD", optim.sgd(0.1), of("SGD", lr=0.1)),
    ("Adagrad", optim.adagrad(0.1), of("Adagrad", lr=0.1)),
    # torch adds the eps of this one to a root that is not corrected: with a tiny one it is the same
    ("SparseAdam", optim.adam(0.02, eps=1e-20), without_foreach("SparseAdam", lr=0.02, eps=1e-20)),
]
"""Those of torch that take sparse gradients, and move the rows of these alone."""


def rows_differ(torch: Any, ours: Transform, theirs: Callable[[Any, Any], Any]) -> float:
    """Returns the difference of two ways of a table whose gradients have some rows, drawn each time."""
    rng = np.random.default_rng(SEED)
    table = rng.standard_normal((20, 3))
    held, parameter = table, torch.nn.Parameter(torch.from_numpy(table.copy()))
    optimizer, state = theirs(torch, [parameter]), ours.init({"table": table})
    our_steps, their_steps = [], []
    for _ in range(STEPS):
        at = np.sort(rng.choice(20, size=rng.integers(1, 6), replace=False)).astype(np.int64)
        values = rng.standard_normal((len(at), 3))
        deltas, after = ours.update({"table": SparseRows(at, values, table.shape)}, state, {"table": held})
        held, state = held + deltas["table"].to_dense(), written(state, after)
        parts = torch.from_numpy(at)[None], torch.from_numpy(values), tuple(table.shape)
        parameter.grad = torch.sparse_coo_tensor(*parts)
        optimizer.step()
        our_steps.append({"table": held})
        their_steps.append({"table": parameter.detach().numpy().copy()})
    return difference(our_steps, their_steps)


def written(before: Any, after: Any) -> Any:
    """Returns the state after an update: rows go where they belong."""
    if isinstance(after, dict):
        return {name: written(before[name], part) for name, part in after.items()}
    if not isinstance(after, SparseRows):
        return after
    whole = np.array(before)
    whole[after.indices] = after.values
    return whole


def rates_differ(torch: Any, ours: Schedule, theirs: Callable[[Any, Any], Any]) -> float:
    """Returns the largest relative difference of two schedules over the updates."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler, worst = theirs(torch, optimizer), 0.0
    for count in range(STEPS):
        rate = float(optimizer.param_groups[0]["lr"])
        worst = max(worst, abs(ours(count) - rate) / max(abs(rate), 1e-12))
        optimizer.step()
        if count + 1 < STEPS:
            scheduler.step()
    return worst


def main() -> int:
    """Prints a row a comparison; the status is 1 when one is over its limit or too few were made."""
    try:
        torch = import_module("torch")  # types of it would be wanted where it is not installed
    except ImportError as error:
        print(f"torch cannot be imported: {error}\n  try: pip install -e '.[oracle]'", file=sys.stderr)
        return 1
    torch.set_num_threads(1)
    torch.sparse.check_sparse_tensor_invariants.enable()
    torch.set_default_dtype(torch.float64)  # NAdam keeps its product of momenta in the default dtype
    rows = [
        (
            f"{pair.title}, {problem}",
            difference(our_way(pair.ours, slopes), their_way(torch, pair, slopes)),
            pair.limit,
        )
        for problem, slopes in problems()
        for pair in PAIRS
        if not (pair.swings and problem == "network")
    ]
    rows += [(f"{title}, rows", rows_differ(torch, ours, theirs), LIMIT) for title, ours, theirs in ROWS]
    rows += [(title, rates_differ(torch, ours, theirs), LIMIT) for title, ours, theirs in SCHEDULES]
    width = max(len(title) for title, _, _ in rows)
    print(f"{'torch ' + torch.__version__:{width}}  steps  difference  limit")
    for title, found, limit in rows:
        verdict = "" if found <= limit else "  OVER"
        print(f"{title:{width}}  {STEPS:5}  {found:10.1e}  {limit:.0e}{verdict}")
    over = [title for title, found, limit in rows if not found <= limit]
    print(f"{len(rows)} compared, at least {LEAST} asked; {len(over)} over the limit")
    return 1 if over or len(rows) < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
