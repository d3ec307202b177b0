"""A stand-in for CuPy where there is no card: numpy's functions, arrays that refuse to meet numpy's.

It shows what our code does with a card, not what a card does: streams run at once, and an array
"on the card" is one of numpy under another type, which raises where CuPy would, when it meets an
array of the host or is turned into one unasked.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any, Self

import numpy as np
import pytest

from actorflow.kernels.definition import registry
from tests.support.faults import planted


class CardArray(np.ndarray):
    """An array in the memory of the card."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        _refuse(inputs)
        plain = [i.view(np.ndarray) if isinstance(i, CardArray) else i for i in inputs]
        out = kwargs.pop("out", None)
        if out is not None:
            kwargs["out"] = tuple(o.view(np.ndarray) for o in out)
        return _on_card(getattr(ufunc, method)(*plain, **kwargs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        message = f"numpy.{function.__name__} was called for an array of the card: use the function of xp"
        raise TypeError(message)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return found if isinstance(found, CardArray) else _on_card(np.asarray(found))

    @property
    def mT(self) -> Any:
        message = "arrays of older CuPys have no mT: use swapaxes"
        raise AttributeError(message)

    @property
    def data(self) -> Any:
        class Memory:
            ptr = self.ctypes.data

        return Memory

    def get(self, order: str = "C") -> np.ndarray:
        return np.array(self.view(np.ndarray), order="C")


for _name in ("any", "all", "sum"):

    def _method(self: Any, *args: Any, _name: str = _name, **kwargs: Any) -> Any:
        return _on_card(getattr(self.view(np.ndarray), _name)(*args, **kwargs))

    setattr(CardArray, _name, _method)


def _refuse(args: Any) -> None:
    """CuPy takes its own arrays and scalars, nothing else."""
    for arg in args:
        if isinstance(arg, list | tuple):
            _refuse(arg)
        if type(arg) is np.ndarray:
            message = f"unsupported type {type(arg)}"
            raise TypeError(message)


def _on_card(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_on_card, value))
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value).view(CardArray)
    return value


class CUDARuntimeError(RuntimeError):
    """What CUDA reports."""


class _Runtime:
    CUDARuntimeError = CUDARuntimeError
    cards = 1

    @classmethod
    def getDeviceCount(cls) -> int:
        if not cls.cards:
            raise CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
        return cls.cards

    @staticmethod
    def memcpyAsync(to: int, source: int, n: int, kind: int, stream: int) -> None:
        assert kind in (1, 2)
        ctypes.memmove(to, source, n)


class Event:
    def __init__(self, *, block: bool, disable_timing: bool) -> None:
        assert block
        assert disable_timing

    def synchronize(self) -> None:
        pass


class _Within:
    """A card or a stream: a context."""

    ptr = 0
    device_id = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def record(self, event: Event) -> Event:
        return event

    def synchronize(self) -> None:
        pass


class _Cuda:
    runtime = _Runtime
    Device = _Within
    Stream = _Within
    Event = Event

    @staticmethod
    def alloc_pinned_memory(n: int) -> bytearray:
        return bytearray(n)


def _segment_sum(starts: Any, order: Any, rows: Any, width: int, out: Any) -> None:
    for r, c in itertools.product(range(out.shape[0]), range(width)):
        picked = rows[order[int(starts[r]) : int(starts[r + 1])], c]
        out[r, c] = np.add.reduce(picked.view(np.ndarray), dtype=rows.dtype)


def module() -> ModuleType:
    """Returns a fresh stand-in for the module `cupy`."""
    cupy: Any = ModuleType("cupy")
    for name in np.__all__:
        found = getattr(np, name)
        setattr(cupy, name, found if isinstance(found, type) or not callable(found) else function(found))
    cupy.ndarray = CardArray
    cupy.argsort = function(partial(np.argsort, kind="stable"))  # CuPy knows no other kind
    cupy.linalg = _of_module(np.linalg)
    cupy.cuda = _Cuda
    cupy.asarray = lambda value, dtype=None: _on_card(np.array(_plain(value), dtype))
    cupy.asnumpy = lambda value: value.get()
    cupy.ElementwiseKernel = lambda *text: _segment_sum
    found_module: ModuleType = cupy
    return found_module


def _of_module(found: ModuleType) -> ModuleType:
    """The functions of a module of numpy, for arrays of the card."""
    made: Any = ModuleType(found.__name__.replace("numpy", "cupy"))
    for name in found.__all__:
        one = getattr(found, name)
        setattr(made, name, one if isinstance(one, type) else function(one))
    found_module: ModuleType = made
    return found_module


def extras() -> dict[str, ModuleType]:
    """Returns fresh stand-ins for `cupyx` and what our kernels take from it, by name.

    Its special functions are our own for numpy: only a card shows how exact CuPy's are.
    """
    cupyx, scipy, special, linalg = (
        ModuleType(f"cupyx{name}") for name in ("", ".scipy", ".scipy.special", ".scipy.linalg")
    )
    vars(cupyx).update(errstate=_errstate, scipy=scipy)
    vars(scipy).update(special=special, linalg=linalg)
    for name, op in _SPECIAL.items():
        setattr(special, name, function(registry.find(op).function))
    vars(linalg).update(solve_triangular=function(_solve_triangular))
    return {module.__name__: module for module in (cupyx, scipy, special, linalg)}


_SPECIAL = {"erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "gammaln": "lgamma", "digamma": "digamma"}


@contextmanager
def _errstate(*, linalg: str) -> Iterator[None]:
    assert linalg == "raise"  # as numpy does in any case
    yield


def _solve_triangular(a: np.ndarray, b: np.ndarray, trans: int, lower: bool) -> np.ndarray:
    triangle = np.tril(a) if lower else np.triu(a)
    return np.linalg.solve(triangle.conj().T if trans == 2 else triangle, b)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value.view(np.ndarray) if isinstance(value, CardArray) else value


def function(found: Any) -> Any:
    def on_card(*args: Any, **kwargs: Any) -> Any:
        _refuse(args)
        return _on_card(found(*map(_plain, args), **kwargs))

    on_card.__name__ = getattr(found, "__name__", "function")
    return on_card


@contextmanager
def installed(cards: int = 1) -> Iterator[ModuleType]:
    """Puts the stand-in where `import cupy` finds it, and takes what was made of it away again."""
    from actorflow.kernels.array import scatter

    with pytest.MonkeyPatch.context() as patch:
        made = module()
        patch.setitem(sys.modules, "cupy", made)
        patch.setattr(_Runtime, "cards", cards)
        patch.setattr(registry, "_FOUND", {})
        for name, extra in extras().items():
            patch.setitem(sys.modules, name, extra)

        @planted(patch, scatter, "_segment_sum")
        def compiled(kept: Any) -> Any:
            return kept.__wrapped__()  # which is not remembered: it is of this stand-in

        yield made
