"""A pytest plugin that makes a session a worker: it collects once, then runs whatever law is asked.

Loaded by `-p`, not before pytest: pytest wants to be there before hypothesis is imported. Collecting costs seconds, a turn costs its examples. The soak asks by a line of JSON on a socket,
`Ask`, and gets one back, `Told`; the first line it gets is `Collected`. The worker ends when the
socket closes, and ends itself, with a traceback in its log, when a turn outlives its limit.
"""

from __future__ import annotations

import faulthandler
import json
import os
import socket
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO, cast

import pytest
from hypothesis import HealthCheck, Phase, core, settings
from hypothesis.statistics import collector

from tests.soaking.falsified import Falsified, falsified

# What a law on a busy machine may be without being wrong, as in the soak profile.
SUPPRESSED = (HealthCheck.too_slow, HealthCheck.data_too_large)
DRAWN_OUT = "nothing left to do"


@dataclass(frozen=True, slots=True)
class Ask:
    """Soak → worker: run `law` with `seed` for `examples`; without `shrink` it stops at a failure."""

    law: str
    seed: int
    examples: int
    shrink: bool
    limit_s: float


@dataclass(frozen=True, slots=True)
class Collected:
    """Worker → soak, once: the laws to run, those that exist beside them, and how many files did not load."""

    laws: list[str]
    others: list[str]
    broken: int


@dataclass(frozen=True, slots=True)
class Told:
    """Worker → soak: how the turn went. `drawn_out` says that the law has no other examples."""

    outcome: str
    ran: int
    seconds: float
    drawn_out: bool
    failures: list[Falsified]
    source: str
    function: str
    resident_bytes: int
    reason: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-channel", type=int, metavar="FD", help="the socket to the soak")


def pytest_configure(config: pytest.Config) -> None:
    with socket.socket(fileno=config.getoption("--soak-channel")) as channel:
        told = channel.makefile("rw")
    log = os.fdopen(os.dup(2), "w")
    config.pluginmanager.register(Turns(told, log))


class Turns:
    """Hooks by which to run the tests is: wait for a law to be asked, run it, tell."""

    def __init__(self, channel: TextIO, log: TextIO) -> None:
        self._channel = channel
        self._log = log
        self._others: list[str] = []
        self._statistics: list[Any] = []
        self._reports: list[pytest.TestReport] = []
        self._failures: list[Falsified] = []

    def pytest_unconfigure(self) -> None:
        self._channel.close()
        self._log.close()

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._others += [item.nodeid for item in items if item.get_closest_marker("hypothesis")]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        laws = {item.nodeid: item for item in session.items}
        with suppress(BrokenPipeError, ConnectionResetError):  # the soak is gone, and so is the work
            self._tell(Collected(list(laws), self._others, session.testsfailed))
            for line in self._channel:
                ask = Ask(**json.loads(line))
                self._tell(self._turn(laws[ask.law], ask))
        return True

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        # Innermost, so that the statistics come here and not to hypothesis's own plugin.
        with collector.with_value(cast("Any", self._statistics.append)):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self._reports.append(report)
        if report.failed and call.excinfo is not None:
            function = cast("pytest.Function", item)
            free = {"self", *function.fixturenames}
            name = function.function.__name__
            self._failures += falsified(call.excinfo.value, name, free, vars(function.module))
        elif report.failed:  # a strict xfail that held
            self._failures.append(Falsified(str(report.longrepr), None, "nothing was raised"))
        return report

    def _turn(self, item: pytest.Item, ask: Ask) -> Told:
        self._statistics, self._reports, self._failures = [], [], []
        core.global_force_seed = ask.seed  # type: ignore[assignment]
        function = cast("pytest.Function", item)
        began = time.perf_counter()
        faulthandler.dump_traceback_later(ask.limit_s, exit=True, file=self._log)
        try:
            with fitted(function, ask.examples, shrink=ask.shrink):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        finally:
            faulthandler.cancel_dump_traceback_later()
        seconds = time.perf_counter() - began
        name = function.originalname or function.name
        outcomes = {report.outcome for report in self._reports}
        outcome = next(each for each in ("failed", "skipped", "passed") if each in outcomes)
        return Told(
            outcome=outcome,
            ran=sum(_valid(each) for each in self._statistics),
            seconds=seconds,
            drawn_out=any(each.get("stopped-because") == DRAWN_OUT for each in self._statistics),
            failures=self._failures,
            source=str(item.path),
            function=f"{function.cls.__qualname__}.{name}" if function.cls else name,
            resident_bytes=_resident_bytes(),
            reason=next((_reason(each) for each in self._reports if each.skipped), ""),
        )

    def _tell(self, what: Collected | Told) -> None:
        self._channel.write(json.dumps(asdict(what)) + "\n")
        self._channel.flush()


@contextmanager
def fitted(item: pytest.Function, examples: int, *, shrink: bool) -> Iterator[None]:
    """Gives the law of `item` settings for one turn: that many examples, drawn by the seed alone."""
    given = hasattr(item.function, "hypothesis")  # else it is a state machine
    holder, name = (item.function, "_hypothesis_internal_use_settings") if given else (item.cls, "settings")
    own: settings | None = getattr(holder, name, None)
    if own is None:  # hypothesis refuses how the law is written, and says so when it is run
        yield
        return
    left_out = set() if shrink else {Phase.shrink, Phase.explain}
    fit = settings(
        parent=own,
        max_examples=examples,
        derandomize=False,
        phases=[phase for phase in own.phases if phase not in left_out],
        suppress_health_check=[*own.suppress_health_check, *SUPPRESSED],
    )
    setattr(holder, name, fit)
    try:
        yield
    finally:
        setattr(holder, name, own)


def _valid(statistics: dict[str, Any]) -> int:
    cases = statistics.get("generate-phase", {}).get("test-cases", ())
    return sum(case["status"] in ("valid", "interesting") for case in cases)


def _reason(skipped: pytest.TestReport) -> str:
    """Returns why a law was skipped, or expected to fail."""
    where = skipped.longrepr
    return str(where[2]) if isinstance(where, tuple) else str(getattr(skipped, "wasxfail", where))


def _resident_bytes() -> int:
    """Returns the memory this process holds, 0 where the system does not say."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0
