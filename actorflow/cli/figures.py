"""Runs the simulations of each figure of the paper and puts them beside its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actorflow.cli.report import Line, Panel, Report, Table, number, percent, residual
from actorflow.sim.paper import backup, ps_scaling, sync_step
from actorflow.sim.paper.numbers import figure

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
    at_paper = workers == given.whole("workers")
    rows, facts = [_BACKUP], []
    for b, (point, gain) in enumerate(zip(fitted, gains, strict=True)):
        step = given.reported("median_s", "backups", b) if at_paper else None
        paper_gain = given.reported("normalised", "backups", b) if at_paper else None
        left = residual(point.median_s, step)
        rows.append([
            str(b), number(point.median_s, 3), number(step, 2), percent(left),
            number(point.p90_s, 3), number(gain, 3), number(paper_gain, 3),
            percent(residual(gain, paper_gain)), number(point.exact_s, 3), f"{point.off:+.1f}",
        ])  # fmt: skip
        facts.append({
            "b": b, "median_s": point.median_s, "p90_s": point.p90_s, "normalised": gain,
            "exact_s": point.exact_s, "off": point.off, "paper_s": step, "residual": left,
            "paper_normalised": paper_gain,
        })  # fmt: skip
    checked, unfitted = [_UNFITTED], []
    for i, model in enumerate(backup.UNFITTED, 1):
        for b, point in enumerate(points(model, seed + i)):
            off = residual(point.median_s, point.exact_s)
            checked.append([
                model.name, str(b), number(point.median_s, 4), number(point.exact_s, 4), percent(off),
                f"{point.off:+.1f}",
            ])  # fmt: skip
            unfitted.append({
                "distribution": model.name, "b": b, "median_s": point.median_s, "exact_s": point.exact_s,
                "residual": off, "off": point.off,
            })  # fmt: skip
    best, fastest = gains.index(max(gains)), min(range(backups + 1), key=lambda b: fitted[b].median_s)
    findings = [
        f"Most for its workers with {best} backups: {percent(gains[best] - 1)}.",
        f"Shortest step with {fastest}: {fitted[fastest].median_s:.3f} s.",
    ]
    chosen = None
    if auto:
        n = workers + 3
        chosen = backup.chosen(backup.fitted(given), n, rounds=_AUTO_ROUNDS, seed=seed)
        findings.append(
            f'Backup("auto", {n}) waits for {chosen} of {n}, after {_AUTO_ROUNDS} rounds with all.'
        )
    b_axis = list(range(backups + 1))
    paper = [given.reported("median_s", "backups", b) if at_paper else None for b in b_axis]
    paper_gains = [given.reported("normalised", "backups", b) if at_paper else None for b in b_axis]
    return Report(
        title=f"Backup workers (figure 8c): the first {workers} of {workers} + b; {steps} steps, seed {seed}",
        tables=[Table(_FITTED, rows), Table(_CHECKED, checked)],
        findings=findings,
        model=_BACKUP_MODEL,
        facts={
            "figure": "8c", "command": "backup", "workers": workers, "steps": steps, "seed": seed,
            "rows": facts, "unfitted": unfitted, "auto": chosen,
        },
        panels=[
            Panel("backup workers b", "median step in s", [
                Line("simulated", b_axis, [point.median_s for point in fitted], paper),
                Line("computed", b_axis, [point.exact_s for point in fitted], [None] * len(b_axis)),
            ]),
            Panel("backup workers b", "normalised speed-up", [Line("simulated", b_axis, gains, paper_gains)]),
        ],
        given=given,
    )  # fmt: skip


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
nothing. The policy is coord.policy.Backup. The distribution was fitted to the paper's medians, so the
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
        title=f"Synchronous null steps (figure 7), {servers} parameter servers: {steps} steps, seed {seed}",
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
        title=f"LSTM-512-512 over parameter servers (figure 9): {steps} steps a worker, seed {seed}",
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
    within = f"Half of the {len(ordered)} points are within {100 * middle:.0f} % of the paper."
    return [within, f"Farthest off: {worst}."]
