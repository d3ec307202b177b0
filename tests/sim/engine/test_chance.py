from __future__ import annotations

import os
import random
import secrets
import threading
import uuid
from collections.abc import Callable
from random import random as bound_long_ago

import numpy as np
import pytest
from numpy.random import rand as numpy_bound_long_ago

from actorflow.sim.engine import patched_environment
from tests.sim.spinning import is_set
from tests.support.python import run_python

HIDDEN = bound_long_ago.__self__  # type: ignore[attr-defined]
SOURCES: dict[str, Callable[[], object]] = {
    "random.random": lambda: random.random(),
    "random.random, bound before": bound_long_ago,
    "random.randrange": lambda: random.randrange(10**9),
    "random.shuffle": lambda: random.sample(range(1000), 1000),
    "random.gauss": lambda: random.gauss(0.0, 1.0),
    "random.seed without a seed": lambda: (random.seed(), random.random()),
    "Random without a seed": lambda: random.Random().random(),
    "SystemRandom": lambda: random.SystemRandom().random(),
    "os.urandom": lambda: os.urandom(8),
    "uuid4": lambda: uuid.uuid4(),
    "uuid1": lambda: uuid.uuid1(),
    "getnode": lambda: uuid.getnode(),
    "secrets.token_hex": lambda: secrets.token_hex(),
    "secrets.randbelow": lambda: secrets.randbelow(10**9),
    "secrets.choice": lambda: secrets.choice(range(10**9)),
    "numpy's global state": lambda: np.random.rand(),
    "numpy's global state, bound before": numpy_bound_long_ago,
    "numpy's global normals": lambda: np.random.normal(),
    "default_rng without a seed": lambda: np.random.default_rng().random(),
    "a bit generator without a seed": lambda: np.random.Philox().random_raw(),
}
if hasattr(os, "getrandom"):
    SOURCES["os.getrandom"] = lambda: os.getrandom(8)


def drawn(source: Callable[[], object], seed: int) -> list[object]:
    with patched_environment.patch_environment(now=float, seed=seed):
        return [source() for _ in range(3)]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_a_source_of_chance_is_a_function_of_the_seed(source: Callable[[], object]) -> None:
    first, again, other = drawn(source, 7), drawn(source, 7), drawn(source, 8)

    assert first == again
    assert first != other
    assert source() not in first  # and outside a run it is not


def test_a_seed_and_its_negative_are_two_seeds() -> None:
    assert drawn(SOURCES["random.random"], 7) != drawn(SOURCES["random.random"], -7)


PROGRAM = """
import os, random, secrets, sys, uuid
import numpy as np
from actorflow.sim.engine import patched_environment
if sys.argv[1] == "used":  # what the process did before must not matter
    np.random.normal(); random.gauss(0, 1); uuid.uuid1(); os.urandom(3)
    with patched_environment.patch_environment(now=float, seed=1):
        np.random.normal(); random.gauss(0, 1); uuid.uuid1(); uuid.getnode(); secrets.randbits(5)
with patched_environment.patch_environment(now=float, seed=7):
    print(random.random(), random.gauss(0, 1), os.urandom(4), uuid.uuid4(), uuid.uuid1(), secrets.token_hex(4),
          random.Random().random(), np.random.normal(), np.random.default_rng().random())
"""


@pytest.mark.slow
def test_a_fresh_process_draws_the_same_and_so_does_a_used_one() -> None:
    told = [
        run_python("-c", PROGRAM, state, env={**os.environ, "PYTHONHASHSEED": hashed}, check=True).stdout
        for state, hashed in (("fresh", "0"), ("fresh", "1"), ("used", "2"))
    ]

    assert told[0]
    assert told[0] == told[1] == told[2]


def test_the_hidden_generator_goes_on_where_it_stood() -> None:
    random.seed(3)
    expected = [random.gauss(0.0, 1.0) for _ in range(4)]
    random.seed(3)

    first = random.gauss(0.0, 1.0)  # keeps the second of the pair
    drawn(lambda: random.gauss(0.0, 1.0), 7)
    rest = [random.gauss(0.0, 1.0) for _ in range(3)]

    assert [first, *rest] == expected


@pytest.mark.parametrize("before", [0, 1, 2], ids=["untouched", "half a pair of normals kept", "a pair used"])
def test_the_global_state_of_numpy_goes_on_where_it_stood(before: int) -> None:
    np.random.seed(3)
    expected = [np.random.normal() for _ in range(5)]
    np.random.seed(3)

    kept = [np.random.normal() for _ in range(before)]
    drawn(lambda: np.random.normal(), 7)
    rest = [np.random.normal() for _ in range(5 - before)]

    assert kept + rest == expected


def test_another_thread_goes_on_with_the_real_stream_and_does_not_disturb_the_run() -> None:
    random.seed(3)
    expected = [random.random() for _ in range(4)]
    random.seed(3)
    theirs = [random.random()]
    go, gone = threading.Event(), threading.Event()

    def draw() -> None:
        go.wait(10)
        theirs.extend([random.random(), random.random()])
        gone.set()

    thread = threading.Thread(target=draw)
    thread.start()
    with patched_environment.patch_environment(now=float, seed=7):
        mine = [random.random()]
        go.set()
        assert is_set(gone)
        mine += [random.random(), random.random()]
    thread.join()
    theirs.append(random.random())

    assert theirs == expected
    assert mine == drawn(lambda: random.random(), 7)


def test_no_function_of_the_hidden_generator_is_forgotten() -> None:
    """Another thread that called one would draw from the run's own stream."""
    shared = [name for name in random.__all__ if getattr(getattr(random, name), "__self__", None) is HIDDEN]
    before = {name: getattr(random, name) for name in shared}

    with patched_environment.patch_environment(now=float, seed=7):
        left = [name for name in shared if getattr(random, name) is before[name]]

    assert len(shared) > 15
    assert left == []


def test_another_thread_has_real_entropy() -> None:
    theirs: list[bytes] = []
    go, gone = threading.Event(), threading.Event()

    def draw() -> None:
        go.wait(10)
        theirs.append(os.urandom(16))
        gone.set()

    thread = threading.Thread(target=draw)
    thread.start()
    with patched_environment.patch_environment(now=float, seed=7):
        go.set()
        assert is_set(gone)
        mine = os.urandom(16)
    thread.join()

    assert theirs != [mine]
    assert drawn(lambda: os.urandom(16), 7)[0] == mine


def test_a_seed_that_the_program_gives_holds() -> None:
    with patched_environment.patch_environment(now=float, seed=7):
        random.seed(5)
        given = random.random(), bound_long_ago(), random.Random(5).random()

    expected = random.Random(5)
    first = expected.random()
    assert given == (first, expected.random(), first)


def test_uuid1_carries_virtual_time_and_never_repeats() -> None:
    with patched_environment.patch_environment(now=lambda: 1.0, seed=7):
        made = [uuid.uuid1() for _ in range(50)]

    assert len(set(made)) == 50
    assert made[0].version == 1
    assert made[0].variant == uuid.RFC_4122
    assert (made[0].time - 0x01B21DD213814000) / 1e7 == patched_environment.EPOCH_S + 1
    assert made[0].node >> 40 & 1  # marked as not a real address


def test_urandom_keeps_its_manners() -> None:
    with patched_environment.patch_environment(now=float, seed=7):
        assert len(os.urandom(0)) == 0
        assert len(os.urandom(1000)) == 1000
        with pytest.raises(ValueError, match="negative"):
            os.urandom(-1)
