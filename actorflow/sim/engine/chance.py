"""Chance during a simulated run: every source of it is a function of the seed.

Two sources hold a state that the whole process shares, and functions bound long before a run draw
from it (`from random import random`, `from numpy.random import rand`); so the state itself is
seeded, and put back afterwards. Everything else ends in `os.urandom`: `secrets`, `SystemRandom`,
`uuid4`, a `Random()` without a seed, and numpy's `default_rng()` without one.

What is not replaced: `os.urandom` and `Random.seed` bound before the run, generators that the program
made before it (their state goes on), numpy's state as other threads see it, and C extensions that ask the
system themselves.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import uuid
from collections.abc import Callable
from threading import Lock, get_ident
from typing import Any

from actorflow.sim.engine.patch import MethodPatch, Patch, running

_hidden: random.Random = random._inst
_GREGORIAN = 0x01B21DD213814000  # 100 ns ticks from 1582-10-15 to 1970-01-01 (RFC 4122, section 4.1.4)


class _NumpyState:
    """The state behind `numpy.random.rand` and its like, where numpy is loaded.

    A run gets a generator of its own: to copy the state out and back takes numpy 88 us, to change
    the generator 0.6 us.
    """

    __slots__ = ("_mine", "_pending", "_theirs")

    def __init__(self) -> None:
        self._mine: Any = None
        self._theirs: Any = None
        self._pending: Any = None

    def hold(self, seed: int) -> None:
        """Gives numpy's global functions a generator of this seed."""
        numpy = sys.modules.get("numpy")
        legacy = None if numpy is None else numpy.random  # loads it: its first import draws a seed
        if legacy is None:
            return
        if self._mine is None:
            self._mine = legacy.MT19937(0)
        theirs, shared = legacy.get_bit_generator(), legacy.mtrand._rand
        # Changing the generator forgets the second half of a pair of normals. get_state tells it, and
        # copies the whole state for 42 us, unless the generator that it asks has none.
        shared._bit_generator = _Stateless()
        try:
            pending = shared.get_state(legacy=False)
        finally:
            shared._bit_generator = theirs
        self._pending = pending if pending["has_gauss"] else None
        self._theirs = theirs
        legacy.set_bit_generator(self._mine)
        legacy.seed(seed)

    def release(self) -> None:
        """Gives them back the one that they had."""
        if self._theirs is None:
            return
        legacy = sys.modules["numpy"].random
        legacy.set_bit_generator(self._theirs)
        if self._pending is not None:
            whole = legacy.mtrand._rand.get_state(legacy=False)
            legacy.set_state({**whole, "has_gauss": 1, "gauss": self._pending["gauss"]})
        self._theirs = self._pending = None


class _Stateless:
    """A generator that has no state to copy."""

    __slots__ = ()

    @property
    def state(self) -> dict[str, Any]:
        return {"bit_generator": "MT19937"}


class SeededEntropy:
    """The seeded sources; one a process, for one run at a time."""

    __slots__ = (
        "_copy", "_drawn", "_held", "_key", "_lock", "_node", "_numpy", "_ticks", "_time_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: tuple[Any, ...] | None = None  # the hidden generator's state, while a run has it
        self._copy: random.Random | None = None
        self._numpy = _NumpyState()
        self._key = b""
        self._drawn = 0
        self._node: int | None = None
        self._ticks = 0
        self._time_ns: Callable[[], int] = int

    def begin(self, seed: int, time_ns: Callable[[], int]) -> None:
        """Seeds every source; `time_ns` gives the time that goes into a `uuid1`."""
        self._key = hashlib.blake2b(str(seed).encode(), digest_size=32).digest()
        self._drawn = self._ticks = 0
        self._node = None
        self._time_ns = time_ns
        # The state itself, not the functions: others were bound before the run (`from random import random`).
        self._held = _hidden.getstate()
        _hidden.seed(int.from_bytes(self._key[:16]))
        self._numpy.hold(int.from_bytes(self._key[16:20]))

    def end(self) -> None:
        """Puts every state back; harmless where nothing was begun."""
        self._numpy.release()
        # Another thread may just be making the copy.
        with self._lock:
            held, copy = self._held, self._copy
            self._held = self._copy = None
        # Other threads have gone on with the state that was there before: what they took from it stays taken.
        if copy is not None:
            held = copy.getstate()
        if held is not None:
            _hidden.setstate(held)

    def urandom(self, size: int, /) -> bytes:
        """Returns `size` bytes that only the seed, and how often it was asked before, decide."""
        if size < 0:
            raise ValueError("negative argument not allowed")  # what os.urandom says
        self._drawn += 1
        # Counted, not chained: how many bytes one call asks for does not move those of the next.
        return hashlib.shake_256(self._key + self._drawn.to_bytes(8)).digest(size)

    def below(self, bits: int) -> int:
        """Returns an integer of that many random bits."""
        # whole bytes, of which the lowest bits are too many
        return int.from_bytes(self.urandom((bits + 7) // 8)) >> (-bits % 8)

    def node(self) -> int:
        """Returns what stands for the machine's address: 48 bits, marked as random (RFC 4122, 4.5)."""
        if self._node is None:
            # bit 40 marks an address that is none of a machine
            self._node = self.below(48) | 1 << 40
        return self._node

    def uuid1(self, node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
        """Returns a version 1 UUID of virtual time; never the same one twice in a run."""
        # Virtual time may stand still between two of them.
        self._ticks = max(self._ticks + 1, self._time_ns() // 100 + _GREGORIAN)
        sequence = self.below(14) if clock_seq is None else clock_seq
        return uuid.UUID(
            fields=(
                self._ticks & 0xFFFFFFFF,
                self._ticks >> 32 & 0xFFFF,
                self._ticks >> 48 & 0x0FFF,
                sequence >> 8 & 0x3F,
                sequence & 0xFF,
                self.node() if node is None else node,
            ),
            version=1,
        )

    def reseed(
        self, real: Callable[..., None], generator: random.Random, a: Any = None, version: int = 2
    ) -> None:
        """Seeds a generator; without a seed, from the run's own chance."""
        real(generator, self.below(256) if a is None else a, version)

    def elsewhere(self) -> random.Random:
        """Returns what threads that are not simulated draw from: the hidden generator, or its copy."""
        with self._lock:
            if self._held is None:
                return _hidden
            # Made when first needed: most runs have no other thread that draws.
            if self._copy is None:
                self._copy = random.Random(0)
                self._copy.setstate(self._held)
            return self._copy


chance = SeededEntropy()


def patches() -> list[Patch]:
    """Makes the patches of every source; called once a process."""
    found: list[Patch] = [
        Patch(os, "urandom", chance.urandom),
        Patch(random, "_urandom", chance.urandom),
        Patch(uuid, "uuid1", chance.uuid1),
        Patch(uuid, "getnode", chance.node),
        MethodPatch(random.Random, "seed", chance.reseed),
    ]
    if hasattr(os, "getrandom"):
        # not on every platform
        found.append(Patch(os, "getrandom", lambda size, flags=0: chance.urandom(size)))
    for name in random.__all__:
        function = getattr(random, name)
        # Only functions bound to the hidden generator: they reach its state past any replacement of it.
        if getattr(function, "__self__", None) is _hidden:
            found.append(_HiddenPatch(random, name, function))
    return found


class _HiddenPatch(Patch):
    """A function of the hidden generator; other threads draw from a copy while a run holds it."""

    __slots__ = ()

    def __init__(self, space: object, name: str, function: Callable[..., Any]) -> None:
        if name == "seed":  # bound before Random.seed was replaced
            super().__init__(space, name, lambda a=None, version=2: random.Random.seed(_hidden, a, version))
        else:
            super().__init__(space, name, function)
        self.stand_in = self._draw

    def _draw(self, /, *args: Any, **kwargs: Any) -> Any:
        # The simulated thread draws from the seeded state, all others from what was there before.
        if get_ident() == running.thread:
            return self.inside(*args, **kwargs)
        elsewhere = chance.elsewhere()
        if elsewhere is _hidden:
            return self.real(*args, **kwargs)
        return getattr(elsewhere, self.name)(*args, **kwargs)
