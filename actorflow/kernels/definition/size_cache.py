"""A cache of what is worked out for a size, for the next array of that size, up to so many bytes in all."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class SizeCache:
    """Values by key, of `max_bytes` in all; those that were asked for longest ago go first.

    A value larger than a quarter of that is not kept: it would drive out all others.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.bytes = max_bytes, 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()  # kernels run on several threads

    def __repr__(self) -> str:
        return f"<SizeCache of {len(self._values)} values, {self.bytes} of {self.max_bytes} bytes>"

    def get(self, key: Hashable) -> Any:
        """Returns the value of the key, None when it is not kept."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Keeps a value of that many bytes, and lets the oldest go that no longer fit."""
        # It would drive out all others.
        if nbytes * 4 > self.max_bytes:
            return
        with self._lock:
            # Two threads may have worked out the same.
            _, before = self._values.pop(key, (None, 0))
            self._values[key] = value, nbytes
            self.bytes += nbytes - before
            while self.bytes > self.max_bytes:
                _, (_, gone) = self._values.popitem(last=False)
                self.bytes -= gone


_ENTRY_BYTES = 512  # what a key and its place take, about


def cache_by_size(max_bytes: int) -> Callable[[Function], Function]:
    """Makes a function of hashable arguments keep what it returned, whose `nbytes` count.

    The table is the function's `kept`. What it returns is shared: do not change it.
    """

    def keeping(function: Function) -> Function:
        table = SizeCache(max_bytes)

        @wraps(function)
        def asked(*key: Any) -> Any:
            found = table.get(key)
            # Worked out outside of the lock, by several threads at once if it comes to that: equal values.
            if found is None:
                found = function(*key)
                table.put(key, found, getattr(found, "nbytes", 0) + _ENTRY_BYTES)
            return found

        asked.kept = table  # type: ignore[attr-defined]
        return asked  # type: ignore[return-value]

    return keeping
