"""How the laws are run: hypothesis profiles, and a printed seed that repeats a run.

pytest                                 default: 100 examples a law, a fresh seed
pytest --hypothesis-profile=ci         half as many, the same every time
pytest --hypothesis-profile=soak       ten times the examples, a fresh seed, each law once
python -m tests.soak --minutes 20      all laws share the time, which takes as many examples as fit
pytest --hypothesis-seed=N             what a run that printed seed N did

A law that draws more or less than 100 says so with `tests.support.strategies.examples`, which a profile
scales; a plain number would be the same under every profile.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from actorflow.runtime.clock import Entropy
from actorflow.runtime.validation import no_validation, validation
from tests.support.collecting import old_out_of_reach
from tests.support.runs import own_runs

# Without Phase.explain, which traces every line: a failing simulated run took 7 times as long.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink)

# No deadline: a law says what holds, and a busy machine is slow. An example that hangs is ended by
# pytest's faulthandler_timeout.
settings.register_profile("default", deadline=None, max_examples=100, print_blob=True, phases=PHASES)
# The examples are the same in every run, so more of them find nothing in the next one that they did not find in
# this: half as many, and what is fresh is drawn by the other profiles. Planted faults say how many they take.
settings.register_profile(
    "ci", parent=settings.get_profile("default"), derandomize=True, database=None, max_examples=50
)
settings.register_profile(
    "soak",
    parent=settings.get_profile("default"),
    max_examples=1_000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draws the seed here, so that every xdist worker gets the same one and it can be printed.

    What a shell starts with `&`, and all that it starts, ignores Ctrl-C: the programs that tests interrupt
    would go on for ever. So tests begin as if they had been started at a terminal.
    """
    os.environ["ACTORFLOW_VALIDATE"] = "1"  # for processes that tests start; `validates` is for this one
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    chosen = config.getoption("--hypothesis-profile") or "default"
    if config.getoption("--hypothesis-seed") is None and not settings.get_profile(chosen).derandomize:
        config.option.hypothesis_seed = str(Entropy().seed)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """When the whole suite runs, clusters run one at a time; of some files the tests are handed out one by one."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS or config.option.dist != "load":
        return None
    from tests.support.distributing import ClustersApart  # not where xdist is missing

    return ClustersApart(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Looks for no garbage while millions of objects are made that all stay: 14 s of a processor instead of 21."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def validates() -> Iterator[None]:
    """Every state machine looks at its invariants after every event, in the whole run."""
    with validation():
        yield


@pytest.fixture
def only_the_law() -> Iterator[None]:
    """No state machine looks at its invariants: what the test plants is for a law to find, which is slower."""
    with no_validation():
        yield


@pytest.fixture
def only_new_garbage() -> Iterator[None]:
    """A `gc.collect` of the test looks at what the test makes, and not at what pytest holds."""
    with old_out_of_reach():
        yield


@pytest.fixture
def quiet_actors(caplog: pytest.LogCaptureFixture) -> None:
    """Failures are what some programs are about; thousands of reports of them tell nothing."""
    caplog.set_level(logging.CRITICAL, "actorflow.actors")


@pytest.fixture
def left() -> Iterator[Callable[[], list[str]]]:
    """Clusters have their folders apart from those of others; gives what is left of them."""
    with own_runs() as names:
        yield names


def pytest_report_header(config: pytest.Config) -> str:
    """Says how to see the same examples again, at the start and beside the failures."""
    profile = config.getoption("--hypothesis-profile") or "default"
    seed = config.getoption("--hypothesis-seed")
    return f"laws: --hypothesis-profile={profile}" + ("" if seed is None else f" --hypothesis-seed={seed}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in _ops_covered(terminalreporter.stats.get("passed", [])):
        terminalreporter.write_line(line)
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(pytest_report_header(config))


_CONFORMS = re.compile(r"test_conformance\.py::(test_\w+)\[([\w.]+)\]")


def _ops_covered(passed: list[pytest.TestReport]) -> list[str]:
    """Says for each law of the conformance suite which ops it has held for."""
    covered: dict[str, set[str]] = {}
    for report in passed:
        found = _CONFORMS.search(report.nodeid)
        if found:
            covered.setdefault(found[1], set()).add(found[2])
    return [f"{law}, {len(ops)} ops: {', '.join(sorted(ops))}" for law, ops in sorted(covered.items())]
