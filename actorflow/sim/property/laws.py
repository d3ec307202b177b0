"""Makes an async test of a simulated world a plain function, which pytest and hypothesis can call.

    @given(schedule=sim.schedules(), faults=sim.faults(crash=1, drop=2), n=st.integers(1, 5))
    @sim.world("ps", worker=3)
    async def test_nothing_is_lost(world, n): ...

Hypothesis then draws the schedule, the faults and the inputs of one example, and shrinks them
together. The test itself runs on the simulated loop, outside all hosts. It need not name
`schedule` and `faults`; if it does, it gets them too, and `@given` can give all by position.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from actorflow.errors import ConfigError
from actorflow.sim.engine.faults import NO_FAULTS, Faults
from actorflow.sim.engine.plan import Plan
from actorflow.sim.engine.schedulers import FIFO, Schedule
from actorflow.sim.engine.simulate import Limits, Main
from actorflow.sim.history.operation import shorten_value
from actorflow.sim.property.replayed_draws import Redrawn
from actorflow.sim.property.run_checks import check_limits, check_seed
from actorflow.sim.property.trial import Trial
from actorflow.sim.world.world import World, check_latency, check_names
from actorflow.values.checks import is_whole

Test = Any
"""An `async def` function that takes a World first."""

_DRAWN = ("schedule", "faults")
_REST = "schedule_and_faults"
_MISTAKEN = {"latency": "latency_s", "limit": "limits"}


def world(
    *names: str,
    latency_s: float = 0.0,
    seed: int = 0,
    limits: Limits | None = None,
    validate: bool = False,
    **counts: int,
) -> Callable[[Test], Callable[..., Any]]:
    """Returns a decorator that runs an async test in a world of its own.

    The test gets the `World` first, then its inputs by name: what hypothesis draws, and fixtures of
    pytest. What it returns is returned. Called without `schedule` and `faults`, it runs first come,
    first served, without fault. Its attribute `program(**inputs)` gives what `sim.run` takes: the test in
    its world.

    Args:
        *names: Hosts of which there is one.
        latency_s: How long a message travels that is not late.
        seed: Of all chance in the world.
        limits: How long a run may take.
        validate: Whether actorflow looks at its own invariants after every event, see `sim.run`.
        **counts: Hosts of which there are several: `worker=3` makes worker0, worker1 and worker2.

    Raises:
        ConfigError: two hosts of one name, what is no name or number, or what is decorated is not an
            `async def` that takes a world.
    """
    _check_bare(names)
    check_latency(latency_s)
    check_seed(seed)
    check_limits(limits)
    for name, n in counts.items():
        if not is_whole(n, 1, plain=True) or name in _MISTAKEN:
            message = f"{name} is how many hosts of that name there are, got {n!r}"
            meant = _MISTAKEN.get(name)
            raise ConfigError(message, hint=None if meant is None else f"{meant}={n!r}?")
    hosts = check_names([*names, *(f"{name}{i}" for name, n in counts.items() for i in range(n))])

    def decorate(test: Test) -> Callable[..., Any]:
        signature, named = _signature(test)
        hint: Plan | None = None

        def program(*selves: Any, **inputs: Any) -> Main:
            def make(loop: Any) -> World:
                return World(loop, hosts, latency_s=latency_s, seed=seed)

            return _program(test, make, selves, inputs)

        @functools.wraps(test)
        def law(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            nonlocal hint
            inputs = _inputs(test, signature, args, kwargs)
            selves = [inputs.pop("self")] if "self" in inputs else []
            schedule: Schedule = inputs.pop("schedule", FIFO)
            faults: Faults = inputs.pop("faults", NO_FAULTS)
            drawn = {"schedule": schedule, "faults": faults}
            given = {**inputs, **{name: drawn[name] for name in named}}

            redrawn = {n: Redrawn(v) for n, v in given.items() if type(v).__name__ == "DataObject"}
            main = program(*selves, **{**given, **redrawn})
            trial = Trial(main, seed=seed, limits=limits, hint=hint, validate=validate)
            trial.before_reducing = [data.settle for data in redrawn.values()]
            try:
                return trial.run(schedule, faults, lambda plan: _example(test, plan, inputs)).result
            except Exception as error:  # noqa: BLE001  it goes on, without the way to the test
                raise error.with_traceback(_from(test, error.__traceback__)) from error.__cause__
            finally:
                hint = trial.hint

        law.__signature__ = _visible_signature(signature)  # type: ignore[attr-defined]
        law.program = program  # type: ignore[attr-defined]
        place = {"co_filename": test.__code__.co_filename, "co_firstlineno": test.__code__.co_firstlineno}
        code = law.__code__.replace(**place)  # type: ignore[attr-defined]
        law.__code__ = code  # type: ignore[attr-defined]  # where hypothesis says that the test is
        return law

    return decorate


def _program(
    test: Test, make: Callable[[Any], World], selves: tuple[Any, ...], inputs: dict[str, Any]
) -> Main:
    """Returns the program of a test: every run has a world, and what hypothesis drew, of its own."""
    redrawn = {name: value for name, value in inputs.items() if isinstance(value, Redrawn)}
    drawn = (_given_by_hypothesis() or frozenset()) - redrawn.keys()

    async def main() -> Any:
        for data in redrawn.values():
            data.begin()
        fresh = {name: _copy(value) if name in drawn else value for name, value in inputs.items()}
        here = make(asyncio.get_running_loop())
        await here.start()
        try:
            result = await test(*selves, here, **fresh)
        except Exception as error:
            await _close_after(here, error)
            raise
        await here.close()
        here.fault_counts.check()
        return result

    return main


def _copy(value: Any) -> Any:
    """Returns a copy of what hypothesis drew, since a run may change it; itself where it has none."""
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  whatever a class of users does there
        return value


def _check_bare(names: tuple[object, ...]) -> None:
    """Raises ConfigError where a decorator is written without its hosts, or has them as one list."""
    for name in names:
        if inspect.isroutine(name) or isinstance(name, type):
            message = f"sim.world takes the names of hosts, got {shorten_value(name)}"
            raise ConfigError(message, hint='write @sim.world("a", "b") above it')
        if isinstance(name, list | tuple):
            message = f"sim.world takes the names of hosts one by one, got {shorten_value(name)}"
            raise ConfigError(message, hint=f"sim.world({', '.join(map(repr, name))})")


async def _close_after(here: World, error: Exception) -> None:
    """Closes the world of a test that has failed; what fails over that is noted on the failure."""
    try:
        await here.close()
    except Exception as further:  # noqa: BLE001  the first error is the one to show
        error.add_note(f"closing the world failed too: {further!r}")


def _signature(test: Test) -> tuple[inspect.Signature, list[str]]:
    """Returns how a test is called once its world is taken out, and which of `_DRAWN` it names.

    A test that names neither takes both by keyword all the same. They have no parameters then:
    pytest would look for fixtures.
    """
    if not inspect.iscoroutinefunction(test):
        message = f"sim.world decorates an `async def`, got {test!r}"
        given = hasattr(test, "hypothesis")
        raise ConfigError(message, hint="@given(...) stands above @sim.world(...)" if given else None)
    parameters = list(inspect.signature(test).parameters.values())
    selves = parameters[:1] if parameters and parameters[0].name == "self" else []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    rest = parameters[len(selves) :]
    if not rest or rest[0].kind not in positional:
        message = f"a test of a world takes the world first, got {test.__name__}{inspect.signature(test)}"
        raise ConfigError(message)
    inputs = [p for p in rest[1:] if p.kind is not inspect.Parameter.VAR_KEYWORD]
    named = [p.name for p in inputs if p.name in _DRAWN]
    more = [] if named else [inspect.Parameter(_REST, inspect.Parameter.VAR_KEYWORD)]
    return inspect.Signature([*selves, *inputs, *more]), named


def _visible_signature(signature: inspect.Signature) -> inspect.Signature:
    """Returns what pytest and hypothesis see: hypothesis refuses parameters with defaults."""
    needed = [p for p in signature.parameters.values() if p.default is p.empty]
    return signature.replace(parameters=needed)


def _inputs(test: Test, signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    """Returns all that a law is called with, by name; hypothesis hands in some by position."""
    parameters = [p for name, p in signature.parameters.items() if name != _REST]
    known = list(dict.fromkeys([*(p.name for p in parameters if p.name != "self"), *_DRAWN]))
    takes = f"{test.__name__} takes {', '.join(known)}"
    try:
        bound = signature.bind_partial(*args, **kwargs).arguments
    except TypeError as error:
        message = f"{takes}: {error}"
        raise ConfigError(message) from None
    rest = bound.pop(_REST, {})
    inputs = {**bound, **rest}
    unknown = [name for name in rest if name not in _DRAWN]
    needed = [p.name for p in parameters if p.default is p.empty and p.name not in _DRAWN]
    missing = [f"no {name}" for name in needed if name not in inputs]
    if unknown or missing:
        message = f"{takes}, got {', '.join(unknown + missing)}"
        raise ConfigError(message)
    return inputs


def _from(test: Test, trace: TracebackType | None) -> TracebackType | None:
    """Returns a traceback from the test's own frame on, if it gets there: the way to it is ours."""
    here = trace
    while here is not None and here.tb_frame.f_code is not test.__code__:
        here = here.tb_next
    return here or trace


def _example(test: Test, plan: Plan, inputs: dict[str, Any]) -> str:
    """Returns how the failure is written as an `@example`, in the words of the test's own module."""
    words: dict[str, Any] = test.__globals__
    given = _given_by_hypothesis()
    prefix = _prefix(words)
    arguments = {"schedule": f"{prefix}{plan!r}"}
    if given is not None and "faults" in given:
        arguments["faults"] = f"{prefix}Faults()"  # those that matter are in the plan
    unpasted = []
    for name, value in inputs.items():
        if given is None or name in given:
            arguments[name] = repr(value)
            if not _evaluates(arguments[name], words):
                unpasted.append(name)
    if given is not None:
        arguments = {name: text for name, text in arguments.items() if name in given}
    line = f"@example({', '.join(f'{name}={text}' for name, text in arguments.items())})"
    if prefix == "sim." and "sim" not in words:
        line += "\n(with `from actorflow import sim`)"
    if unpasted:
        line += f"\n(to be pasted once {' and '.join(unpasted)} can be written there)"
    return line


def _given_by_hypothesis() -> frozenset[str] | None:
    """Returns what hypothesis gives to the test that runs now; None when it cannot be known."""
    control = sys.modules.get("hypothesis.control")
    if control is None or not control.currently_in_test_context():
        return None
    handle = getattr(getattr(control.current_build_context(), "wrapped_test", None), "hypothesis", None)
    given = getattr(handle, "_given_kwargs", None)
    return None if given is None else frozenset(given)


def _evaluates(text: str, words: dict[str, Any]) -> bool:
    try:
        eval(text, dict(words))
    except Exception:  # noqa: BLE001  a repr may be any text
        return False
    return True


def _prefix(words: dict[str, Any]) -> str:
    """Returns how a module reaches `Plan`."""
    if words.get("Plan") is Plan and words.get("Faults") in (None, Faults):
        return ""
    for module, within in (("actorflow.sim", "."), ("actorflow", ".sim.")):
        for name, value in words.items():
            if inspect.ismodule(value) and value.__name__ == module:
                return f"{name}{within}"
    return "sim."
