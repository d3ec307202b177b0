from __future__ import annotations

import inspect
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume as hypothesis_assume
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.errors import ConfigError, Livelock
from actorflow.sim import Faults, Limits, Seeded, World
from actorflow.sim.property import hash_seed

FEW = settings(max_examples=10, database=None)


class Echo(Actor):
    def receive(self, message: Any) -> Any:
        return message


# -- laws as users write them ----------------------------------------------------------------------


@FEW
@given(schedule=sim.schedules(), faults=sim.faults(drop=1), n=st.integers(1, 5))
@sim.world("ps", worker=3)
async def test_a_law_gets_its_inputs_by_keyword_without_naming_schedule_and_faults(
    world: World, n: int
) -> None:
    assert [host.name for host in world.hosts] == ["ps", "worker0", "worker1", "worker2"]
    assert 1 <= n <= 5
    world["ps"].ref("worker0/nobody").tell(n)


@given(schedule=sim.schedules(), n=st.integers(1, 5))
@FEW
@sim.world("a", "b")
async def test_settings_may_stand_below_given(world: World, n: int) -> None:
    assert 1 <= n <= 5


@FEW
@given(sim.schedules(), sim.faults(drop=1), st.integers(1, 5))
@sim.world("a", "b")
async def test_a_law_that_names_all_can_be_given_by_position(
    world: World, schedule: Any, faults: Faults, n: int
) -> None:
    assert isinstance(faults, Faults)
    assert hasattr(schedule, "scheduler")
    assert 1 <= n <= 5
    world["a"].ref("b/nobody").tell(n)


@FEW
@given(sim.schedules(), st.data())
@sim.world("a", "b")
async def test_a_law_may_name_only_its_schedule(world: World, schedule: Any, data: st.DataObject) -> None:
    assert hasattr(schedule, "scheduler")
    assert data.draw(st.just(3)) == 3


@FEW
@given(schedule=sim.schedules(), data=st.data())
@sim.world("a", "b")
async def test_a_law_may_draw_while_it_runs(world: World, data: st.DataObject) -> None:
    world["b"].spawn(Echo, name="echo")
    value = data.draw(st.integers())
    assert await world["a"].ref("b/echo").ask(value) == value


@sim.world("a", "b")
async def test_a_world_without_hypothesis_runs_once_with_fixtures(world: World, tmp_path: Path) -> None:
    assert isinstance(tmp_path, Path)
    await world.sleep(1.0)


@pytest.mark.parametrize("n", [1, 2])
@FEW
@given(schedule=sim.schedules(), m=st.integers(3, 4))
@sim.world("a", "b")
async def test_a_law_takes_parameters_of_pytest_beside_those_of_hypothesis(
    world: World, n: int, m: int
) -> None:
    assert n < m


class TestInAClass:
    here = "here"

    @FEW
    @given(schedule=sim.schedules(), n=st.integers(1, 5))
    @sim.world("a", "b")
    async def test_a_law_may_be_a_method(self, world: World, n: int) -> None:
        assert self.here == "here"
        assert 1 <= n <= 5

    @sim.world("a")
    async def test_and_a_world_without_hypothesis_too(self, world: World, tmp_path: Path) -> None:
        assert self.here == "here"
        assert isinstance(tmp_path, Path)
        assert len(world.hosts) == 1


# -- calling -----------------------------------------------------------------------------------------


def test_a_law_returns_what_its_test_returns_and_keeps_its_name() -> None:
    @sim.world("a")
    async def law(world: World, n: int = 3) -> int:
        """Says n."""
        return n

    assert (law(), law(n=4), law(5)) == (3, 4, 5)
    assert (law.__name__, law.__doc__) == ("law", "Says n.")


def test_parameters_with_defaults_are_not_shown_to_hypothesis_and_can_be_given() -> None:
    seen: set[tuple[int, int]] = set()

    @sim.world("a")
    async def law(world: World, n: int, m: int = 3) -> None:
        seen.add((n, m))

    FEW(given(schedule=sim.schedules(), n=st.just(1))(law))()
    FEW(given(schedule=sim.schedules(), n=st.just(2), m=st.just(4))(law))()

    assert str(inspect.signature(law)) == "(n: 'int', **schedule_and_faults)"
    assert seen == {(1, 3), (2, 4)}


def test_each_run_has_a_world_of_its_own() -> None:
    worlds: list[World] = []

    @sim.world("a")
    async def law(world: World) -> None:
        worlds.append(world)

    law(schedule=Seeded(3))
    law()

    assert worlds[0] is not worlds[1]


def test_a_world_has_a_seed_and_limits() -> None:
    @sim.world("a", seed=7, limits=Limits(max_steps=200))
    async def law(world: World, n: int) -> float:
        for _ in range(n):
            await world.sleep(1.0)
        return world["a"].system.entropy.uniform()

    @sim.world("a", seed=8)
    async def other(world: World) -> float:
        return world["a"].system.entropy.uniform()

    assert law(n=1) == law(n=1) != other()
    with pytest.raises(Livelock):
        law(n=1000)


# -- wrong uses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "counts", "text"),
    [
        (("a", "a"), {}, "different names, got a twice"),
        (("w1",), {"w": 2}, "different names, got w1 twice"),
        ((), {"worker": 0}, "worker is how many hosts of that name there are, got 0"),
        ((), {"worker": "3"}, "worker is how many hosts of that name there are, got '3'"),
        (("a/b",), {}, "the name of a host is letters, digits, .* got 'a/b'"),
        (("",), {}, "the name of a host is letters, digits, .* got ''"),
    ],
)
def test_a_world_that_cannot_be_is_refused(names: Any, counts: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        sim.world(*names, **counts)


def _plain(world: World) -> None:
    pass


async def _no_world() -> None:
    pass


async def _keyword_world(*, world: World) -> None:
    pass


class _Method:
    async def alone(self) -> None:
        pass


@pytest.mark.parametrize(
    ("test", "text"),
    [
        (_plain, "decorates an `async def`, got <function _plain"),
        (given(n=st.integers())(_plain), "decorates an `async def`"),
        (_no_world, r"takes the world first, got _no_world\(\)"),
        (_keyword_world, r"takes the world first, got _keyword_world\(\*, world"),
        (_Method.alone, r"takes the world first, got alone\(self\)"),
    ],
)
def test_what_is_no_test_of_a_world_is_refused(test: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        sim.world("a")(test)


def test_what_a_law_does_not_take_is_refused() -> None:
    @sim.world("a")
    async def law(world: World, n: int) -> None:
        pass

    with pytest.raises(ConfigError, match="law takes n, schedule, faults, got m"):
        law(n=1, m=2)
    with pytest.raises(ConfigError, match="law takes n, schedule, faults: too many positional"):
        law(1, 2)
    with pytest.raises(ConfigError, match="law takes n, schedule, faults, got no n"):
        law()
    with pytest.raises(ConfigError, match="law takes n, schedule, faults, got m"):
        FEW(given(schedule=sim.schedules(), n=st.integers(), m=st.integers())(law))()


# -- failures ----------------------------------------------------------------------------------------

MODULE = """
from typing import NamedTuple

from hypothesis import Phase, example, given, settings, strategies as st
IMPORTS
from actorflow.actors.actor import Actor


class Step(NamedTuple):
    number: int


class Keeps(Actor):
    def __init__(self, steps):
        self.steps = steps

    def receive(self, step):
        self.steps.append(step.number)


@settings(max_examples=300, database=None, phases=PHASES)
@given(schedule=SIM.schedules(), faults=SIM.faults(reorder=1), step=st.builds(Step, st.integers(0, 9)))
EXAMPLE
@SIM.world("a", "b", latency_s=0.001)
async def law(world, step):
    steps = []
    world["b"].spawn(Keeps, steps, name="keeps")
    ref = world["a"].ref("b/keeps")
    ref.tell(step)
    ref.tell(Step(step.number + 1))
    await world.sleep(1.0)
    assert steps == sorted(steps), "out of order"
"""


def module(imports: str, prefix: str, line: str = "") -> Any:
    """Returns the law of a module that reaches `sim` by `prefix`; with `line` pasted, it runs nothing else."""
    phases = "[Phase.explicit]" if line else "[Phase.generate, Phase.shrink]"
    text = MODULE.replace("IMPORTS", imports).replace("SIM.", prefix)
    made = types.ModuleType("made")
    code = text.replace("PHASES", phases).replace("EXAMPLE", line)
    exec(compile(code, "made.py", "exec"), vars(made))
    return made.law


WAYS = [
    ("from actorflow import sim", "sim."),
    ("import actorflow.sim as simulation", "simulation."),
    ("import actorflow as af; import actorflow.sim", "af.sim."),
    ("from actorflow.sim import Faults, Plan, faults, schedules, world", ""),
]


def failure(law: Callable[[], Any]) -> AssertionError:
    """Returns the error of a law that fails."""
    with pytest.raises(AssertionError, match="out of order") as raised:
        law()
    return raised.value


@pytest.mark.slow
@pytest.mark.parametrize(("imports", "prefix"), WAYS)
def test_the_line_of_a_failure_can_be_pasted_and_repeats_it(imports: str, prefix: str) -> None:
    notes = failure(module(imports, prefix)).__notes__
    line = next(note for note in notes if note.startswith("@example"))
    again = failure(module(imports, prefix, line))

    assert notes[:2] == [
        "it takes one deviation: a>b#1 reorder",
        f'@example(schedule={prefix}Plan("a>b#1 reorder"), faults={prefix}Faults(), step=Step(number=0))',
    ]
    assert again.__notes__[:2] == notes[:2]


def test_a_failure_shows_the_test_and_not_the_way_to_it() -> None:
    law = module(*WAYS[0], '@example(schedule=sim.Plan("a>b#1 reorder"), faults=sim.Faults(), step=Step(0))')

    frames = traceback.extract_tb(failure(law).__traceback__)

    names = [frame.name for frame in frames]
    ours = [frame.name for frame in frames if "/actorflow/sim/" in frame.filename]
    assert names[-2:] == ["law", "law"], "what pytest hides, and the test"
    assert not ours


def test_of_a_law_without_hypothesis_the_line_names_all_that_can_be_written() -> None:
    where = Path("/x")  # shown as PosixPath, which this module does not know

    @sim.world("a")
    async def law(world: World, n: int, where: Path) -> None:
        raise ValueError(n)

    with pytest.raises(ValueError, match="3") as raised:
        law(n=3, where=where)

    line = f'@example(schedule=sim.Plan(""), n=3, where={where!r})\n'
    line += "(to be pasted once where can be written there)"
    assert raised.value.__notes__ == [
        "it fails first come, first served, without any deviation:",
        line,
        hash_seed.describe(),
    ]


def test_a_fixture_is_no_part_of_an_example_and_drawn_data_cannot_be_pasted() -> None:
    @FEW
    @given(schedule=sim.schedules(), data=st.data())
    @sim.world("a")
    async def law(world: World, place: Any, data: st.DataObject) -> None:
        assert data.draw(st.integers(0, 9)) < 5

    with pytest.raises(AssertionError) as raised:
        law(place=object())

    note = raised.value.__notes__[1]
    assert note.startswith("@example(schedule=sim.")
    assert note.endswith("data=data(...))\n(to be pasted once data can be written there)")
    assert "place" not in note


def test_the_error_of_the_test_is_kept_when_closing_fails_too() -> None:
    class Fails(Actor):
        def receive(self, message: Any) -> None:
            raise ValueError("of an actor")

    @sim.world("a")
    async def law(world: World) -> None:
        world["a"].spawn(Fails, name="fails").tell(1)
        await world.sleep(1.0)
        raise KeyError("of the test")

    with pytest.raises(KeyError) as raised:
        law()

    assert any("closing the world failed too: ExceptionGroup" in note for note in raised.value.__notes__)


def test_what_hypothesis_stops_an_example_with_comes_through() -> None:
    seen: list[int] = []

    @settings(max_examples=50, database=None)
    @given(schedule=sim.schedules(), data=st.data())
    @sim.world("a", "b")
    async def law(world: World, data: st.DataObject) -> None:
        async def draws() -> None:
            value = data.draw(st.integers(0, 9).filter(lambda n: n != 5))
            hypothesis_assume(value % 2 == 0)
            seen.append(value)

        await world["a"].run(draws())

    law()

    assert seen
    assert all(value % 2 == 0 for value in seen)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda world: world(Echo.receive),
            r'(?s)takes the names of hosts, got <function.*@sim.world\("a", "b"\)',
        ),
        (lambda world: world(Echo), r"takes the names of hosts, got <class"),
        (lambda world: world(["a", "b"]), r"(?s)one by one, got \['a', 'b'\].*sim\.world\('a', 'b'\)"),
        (lambda world: world(3), "the name of a host is letters, .*got 3"),
        (lambda world: world("a", latency=0.1), r"(?s)latency is how many hosts.*got 0\.1.*latency_s=0\.1\?"),
        (lambda world: world("a", latency=1), r"(?s)latency is how many hosts.*latency_s=1\?"),
        (lambda world: world("a", latency_s=-1), "latency_s is a finite number of at least 0, got -1"),
        (lambda world: world("a", latency_s=float("nan")), "latency_s is a finite number .* got nan"),
        (lambda world: world("a", latency_s=float("inf")), "latency_s is a finite number .* got inf"),
        (lambda world: world("a", latency_s="1ms"), "(?s)latency_s is .* got '1ms'.*0.001 is a millisecond"),
        (lambda world: world("a", seed="x"), "seed is a whole number, got 'x'"),
        (lambda world: world("a", limits=100), r"(?s)limits are a sim\.Limits.*sim\.Limits\(max_steps=100\)"),
    ],
)
def test_a_slip_in_the_decorator_is_told_at_once(make: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make(sim.world)


def test_a_law_is_called_with_a_schedule_and_faults() -> None:
    @sim.world("a")
    async def law(world: World) -> None:
        del world

    with pytest.raises(ConfigError, match=r"(?s)got 'a>b#1 \+1'.*sim\.Plan\('a>b#1 \+1'\)"):
        law(schedule="a>b#1 +1")
    with pytest.raises(ConfigError, match=r"faults are a sim\.Faults, got {'crash': 1}"):
        law(faults={"crash": 1})
