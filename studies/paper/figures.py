"""Runs the simulations of each figure of the paper and puts them beside its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actorflow.errors import pluralise
from studies.paper import backup, ps_scaling, sync_step
from studies.paper.numbers import Figure, figure
from studies.paper.report import Line, Panel, Report, Table, number, percent, residual

Done = Callable[[float], None]
"""Told how much work is done, in the unit of `work`."""


def backup_work(workers: int, backups: int, steps: int) -> float:
    """Returns how much work `backup_report` is: gradients."""
    n = sum(workers + b for b in range(backups + 1))
    return n * steps * (1 + len(backup.UNFITTED))


def backup_report(done: Done, *, workers: int, backups: int, steps: int, seed: int, auto: bool) -> Report:
    """Returns Figure 8c: b = 0 .. `backups` more workers than gradients that a step needs."""
    given = figure("backup")

    def points(model: backup.Model, seed: int) -> Iterator[backup.Timed]:
        for b in range(backups + 1):
            yield backup.timed(model, workers, workers + b, steps=steps, seed=seed)
            done((workers + b) * steps)

    fitted = list(points(backup.fitted(given), seed))
    gains = backup.normalised(fitted)
    facts = [
        _beside(given, b, point, gain) for b, (point, gain) in enumerate(zip(fitted, gains, strict=True))
    ]
    unfitted = [
        _check(model, b, point)
        for i, model in enumerate(backup.UNFITTED, 1)
        for b, point in enumerate(points(model, seed + i))
    ]
    best = max(facts, key=lambda row: row["normalised"])
    fastest = min(facts, key=lambda row: row["median_s"])
    findings = [
        f"Most for its workers with {best['b']} backups: {percent(best['normalised'] - 1)}.",
        f"Shortest step with {fastest['b']}: {fastest['median_s']:.3f} s.",
    ]
    chosen = None
    if auto:
        n = workers + 3
        chosen = backup.chosen(backup.fitted(given), n, rounds=_AUTO_ROUNDS, seed=seed)
        findings.append(
            f'Backup("auto", {n}) waits for {chosen} of {n}, after {_AUTO_ROUNDS} rounds with all.'
        )
    return Report(
        title=f"Backup workers (figure 8c): the first {workers} of {workers} + b; "
        f"{pluralise(steps, 'step')}, seed {seed}",
        tables=[
            Table(_FITTED, [_BACKUP, *map(_backup_row, facts)]),
            Table(_CHECKED, [_UNFITTED, *map(_check_row, unfitted)]),
        ],
        findings=findings,
        model=_BACKUP_MODEL,
        facts={
            "figure": "8c", "command": "backup", "workers": workers, "steps": steps, "seed": seed,
            "rows": facts, "unfitted": unfitted, "auto": chosen,
        },
        panels=_backup_panels(facts),
        given=given,
    )  # fmt: skip


def _beside(given: Figure, b: int, point: backup.Timed, gain: float) -> dict[str, Any]:
    """Returns a row: what was simulated beside the paper's numbers, which are of so many workers only."""
    at_paper = point.m == given.whole("workers")
    step_s = given.reported("median_s", "backups", b) if at_paper else None
    return {
        "b": b,
        "median_s": point.median_s,
        "p90_s": point.p90_s,
        "normalised": gain,
        "exact_s": point.exact_s,
        "off": point.off,
        "paper_s": step_s,
        "residual": residual(point.median_s, step_s),
        "paper_normalised": given.reported("normalised", "backups", b) if at_paper else None,
    }


def _backup_row(row: dict[str, Any]) -> list[str]:
    gain, paper_gain = row["normalised"], row["paper_normalised"]
    return [
        str(row["b"]), number(row["median_s"], 3), number(row["paper_s"], 2), percent(row["residual"]),
        number(row["p90_s"], 3), number(gain, 3), number(paper_gain, 3), percent(residual(gain, paper_gain)),
        number(row["exact_s"], 3), f"{row['off']:+.1f}",
    ]  # fmt: skip


def _check(model: backup.Model, b: int, point: backup.Timed) -> dict[str, Any]:
    """Returns a row: what was simulated beside what can be computed."""
    return {
        "distribution": model.name,
        "b": b,
        "median_s": point.median_s,
        "exact_s": point.exact_s,
        "residual": residual(point.median_s, point.exact_s),
        "off": point.off,
    }


def _check_row(row: dict[str, Any]) -> list[str]:
    times = [number(row[name], 4) for name in ("median_s", "exact_s")]
    return [row["distribution"], str(row["b"]), *times, percent(row["residual"]), f"{row['off']:+.1f}"]


def _backup_panels(facts: Sequence[dict[str, Any]]) -> list[Panel]:
    def of(name: str) -> list[Any]:
        return [row[name] for row in facts]

    axis, none = of("b"), [None] * len(facts)
    steps = [
        Line("simulated", axis, of("median_s"), of("paper_s")),
        Line("computed", axis, of("exact_s"), none),
    ]
    gains = [Line("simulated", axis, of("normalised"), of("paper_normalised"))]
    label = "backup workers b"
    return [Panel(label, "median step in s", steps), Panel(label, "normalised speed-up", gains)]


_BACKUP = ["b", "median s", "paper", "residual", "p90 s", "normalised", "paper", "residual", "exact s", "off"]
_UNFITTED = ["distribution", "b", "median s", "exact s", "residual", "off"]
_AUTO_ROUNDS = 20
_FITTED = """\
Fitted to the paper's medians. `exact` is computed from the distribution; `off` is how far the simulated
median is from that, in standard errors of a median of so many steps."""
_CHECKED = """\
Fitted to nothing: 1.5 s and a stall of 0.2 s in the mean, with an exponential and with a Pareto tail of
shape 2.5; servers cost nothing. The residual is from the exact median."""
_BACKUP_MODEL = """\
The model: workers are independent and draw afresh for each step; what comes late is dropped, and delays
nothing. The policy is af.Backup. The distribution was fitted to the paper's medians, so the
first table is a fit and no prediction. That the simulation is right, the exact medians show."""


def sync_work(curves: Sequence[sync_step.Curve], workers: Sequence[int], steps: int) -> float:
    """Returns how much work `sync_report` is: steps of workers."""
    return sum(n * sync_step.steps_of(curve, steps) for curve in curves for n in workers)


def sync_report(
    done: Done, *, curves: Sequence[sync_step.Curve], workers: Sequence[int], steps: int, seed: int
) -> Report:
    """Returns Figure 7: null steps of synchronous workers."""
    given = figure("sync-step")
    servers = given.whole("ps_tasks")
    rows = [["curve", "workers", "step ms", "paper", "residual", "batches/s", "paper"]]
    facts, lines, off = [], [], []
    for curve in curves:
        rates, paper_rates = [], []
        for n in workers:
            taken = sync_step.steps_of(curve, steps)
            step_s = sync_step.timed(curve, n, steps=taken, seed=seed, given=given)
            done(n * taken)
            rate = given.reported(curve.name, "workers", n)
            paper_ms = None if rate is None else 1e3 * n / rate
            left = residual(1e3 * step_s, paper_ms)
            rows.append([
                curve.name, str(n), number(1e3 * step_s, 2), number(paper_ms, 2), percent(left),
                number(n / step_s, 1), number(rate, 1),
            ])  # fmt: skip
            facts.append({
                "curve": curve.name, "workers": n, "measured": 1e3 * step_s, "paper": paper_ms,
                "residual": left, "batches_s": n / step_s, "paper_batches_s": rate,
            })  # fmt: skip
            rates.append(n / step_s)
            paper_rates.append(rate)
            if left is not None:
                off.append((abs(left), f"{curve.name} with {n} ({percent(left)})"))
        lines.append(Line(curve.name, workers, rates, paper_rates))
    return Report(
        title=f"Synchronous null steps (figure 7), {servers} parameter servers: "
        f"{pluralise(steps, 'step')}, seed {seed}",
        tables=[Table(f"Median step; dense curves take one step of {sync_step.DENSE_PART}.", rows)],
        findings=_misses(off),
        model=_SYNC_MODEL,
        facts={
            "figure": "7", "command": "sync-step", "unit": "ms a step", "steps": steps, "seed": seed,
            "rows": facts,
        },
        panels=[Panel("workers", "batches/s", lines, logarithmic=True)],
        given=given,
    )  # fmt: skip


_SYNC_MODEL = """\
The model: cards send and receive at one rate, first come, first served; a server handles one message at
a time; a worker's own part has an exponential delay. The size of a table enters only in which rows are
drawn. Left out: switches, copies in memory, who else uses the network."""


def scaling_work(ps_tasks: Sequence[int], workers: Sequence[int]) -> float:
    """Returns how much work `scaling_report` is: exchanges of workers with servers."""
    return 2.0 * sum(ps_tasks) * sum(workers)


def scaling_report(
    done: Done, *, ps_tasks: Sequence[int], workers: Sequence[int], steps: int, seed: int
) -> Report:
    """Returns Figure 9: words a second over parameter servers."""
    given = figure("ps-scaling")
    rows = [["softmax", "workers", "PS tasks", "words/s", "paper", "residual"]]
    facts, lines, off = [], [], []
    for softmax in ps_scaling.SOFTMAXES:
        for n in workers:
            found, paper = [], []
            curve = f"{softmax}-{n}"
            for p in ps_tasks:
                rate = ps_scaling.words_per_s(softmax, p, n, steps=steps, seed=seed, given=given)
                done(p * n)
                reported = given.reported(curve, "ps_tasks", p) if curve in given.paper else None
                left = residual(rate, reported)
                rows.append([softmax, str(n), str(p), number(rate, 0), number(reported, 0), percent(left)])
                facts.append({
                    "softmax": softmax, "workers": n, "ps_tasks": p, "measured": rate, "paper": reported,
                    "residual": left,
                })  # fmt: skip
                found.append(rate)
                paper.append(reported)
                if left is not None:
                    off.append((abs(left), f"{softmax}, {n} workers, {p} PS ({percent(left)})"))
            lines.append(Line(f"{softmax}, {n} workers", ps_tasks, found, paper))
    return Report(
        title=f"LSTM-512-512 over parameter servers (figure 9): "
        f"{pluralise(steps, 'step')} a worker, seed {seed}",
        tables=[Table("Words a second of all workers.", rows), *_gains(facts, ps_tasks, workers)],
        findings=_misses(off),
        model=_SCALING_MODEL,
        facts={
            "figure": "9", "command": "ps-scaling", "unit": "words/s", "steps": steps, "seed": seed,
            "rows": facts,
        },
        panels=[Panel("PS tasks", "words/s", lines, logarithmic=True)],
        given=given,
    )  # fmt: skip


def _gains(
    facts: Sequence[dict[str, Any]], ps_tasks: Sequence[int], workers: Sequence[int]
) -> Iterator[Table]:
    """Yields a table of what a second server gives beside what more workers give, where both are known."""
    if not {1, 2} <= set(ps_tasks):
        return
    found = {(row["softmax"], row["workers"], row["ps_tasks"]): row for row in facts}
    rows = [["softmax", "from", "to", "words/s", "paper"]]
    for softmax in ps_scaling.SOFTMAXES:
        for n, more in zip(workers, [*workers[1:], None], strict=True):
            steps = [("2 PS", (softmax, n, 2))]
            if more is not None:
                steps.append((f"{more} workers", (softmax, more, 1)))
            one = found[softmax, n, 1]
            for to, key in steps:
                gain = found[key]["measured"] / one["measured"]
                both = one["paper"] is not None and found[key]["paper"] is not None
                paper = f"×{found[key]['paper'] / one['paper']:.2f}" if both else "-"
                rows.append([softmax, f"{n} workers, 1 PS", to, f"×{gain:.2f}", paper])
    yield Table("What a second PS task gives, and what more workers give.", rows)


_SCALING_MODEL = """\
The model: workers wait for nobody; a server multiplies for one request at a time; cards as in figure 7.
`alone_s` is fitted and has no mechanism: the paper's single server is 2 to 3 times slower than half of two
with the full softmax and 5 to 6 times with the sampled one, and is the faster the more workers it has,
which no queue is."""


def _misses(off: Sequence[tuple[float, str]]) -> list[str]:
    """Says how far the model is from the paper in the middle, and where it misses most."""
    if not off:
        return ["The paper has no number for these."]
    ordered = sorted(off, reverse=True)
    middle = ordered[len(ordered) // 2][0]
    worst = ", ".join(text for _, text in ordered[:3])
    if len(ordered) == 1:
        return [f"The one point is {100 * middle:.0f} % off the paper."]
    within = f"Half of the {len(ordered)} points are within {100 * middle:.0f} % of the paper."
    return [within, f"Farthest off: {worst}."]
