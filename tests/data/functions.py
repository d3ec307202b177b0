"""Functions that processes are given in tests. It imports little, for each process imports it."""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def same(value: Any) -> Any:
    return value


def wrapped(value: Any) -> Any:
    return {"value": value, "pair": (value, 1)}


def doubled(value: Any) -> Any:
    return value * 2


def noisy(value: Any, generator: Any) -> Any:
    return value + generator.standard_normal(3)


def positive(value: Any) -> Any:
    if value < 0:
        message = f"{value} is negative"
        raise ValueError(message)
    return value


def leaving(_value: Any) -> Any:
    sys.exit(3)


def a_set(value: Any) -> Any:
    return {value} if value < 0 else value


def harmed(value: Any) -> Any:
    """Does to its process what the element says."""
    match value:
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
        case "sleep":
            time.sleep(600)
        case "fork":
            if (child := os.fork()) == 0:
                time.sleep(600)
            os.write(2, f"{child}\n".encode())
            os._exit(4)
        case "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        case "noise":
            os.write(descriptor(), b"noise, and no message of a child")
    return value


def descriptor() -> int:
    return int(sys.argv[1])


def slow_then(value: Any) -> Any:
    """Takes long for the first elements and no time for later ones."""
    time.sleep(max(0.0, 0.02 - value * 0.001))
    return value


def grown(n: Any) -> Any:
    return np.zeros(n, np.uint8)


def pid(_value: Any) -> int:
    return os.getpid()


def modules(_value: Any) -> list[str]:
    return sorted(sys.modules)


def environment(_value: Any) -> list[Any]:
    return [os.environ.get("OMP_NUM_THREADS"), os.environ.get("PYTHONPATH"), sys.path, sys.flags.optimize]


def blas_threads(_value: Any) -> list[int]:
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    return [pool["num_threads"] for pool in threadpool_info()]


def in_place(value: Any) -> Any:
    value += 1
    return value


def writes(value: Any) -> Any:
    sys.stdout.write(f"out {value}\n")
    sys.stderr.write(f"err {value}\n")
    return value


async def later(value: Any) -> Any:
    return value


def promised_at_70(value: int, *_: Any) -> Any:
    """What looks like a plain function, and gives a coroutine from element 70 on."""
    return value if value < 70 else later(value)


def plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    def inside(value: Any) -> Any:
        return function(value)

    return inside


def properly(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inside(value: Any) -> Any:
        return function(value)

    return inside


@plainly
def hidden(value: Any) -> Any:
    return value


@properly
def decorated(value: Any) -> Any:
    if value < 0:
        raise KeyError("decorated")
    return value


class Kit:
    """Functions inside a class."""

    @staticmethod
    def static(value: Any) -> Any:
        return value + 1

    @classmethod
    def of_class(cls, value: Any) -> Any:
        return value + 2

    def method(self, value: Any) -> Any:
        return value

    def __call__(self, value: Any) -> Any:
        return value


def with_bits(value: Any, bits: int) -> Any:
    return int(value), bits


nameless = lambda value: value  # noqa: E731
partially = functools.partial(doubled)
number = 7


def with_pid(value: Any) -> Any:
    return value, os.getpid()


def ended_at_500(value: Any) -> Any:
    if value == 500:
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def waiting(value: Any) -> Any:
    time.sleep(600 if value >= 100 else 0)
    return value, os.getpid()


def stopped_at_70(value: int, *_: Any) -> int:
    if value == 70:
        raise StopIteration
    return value


def cancelled_at_70(value: int, *_: Any) -> int:
    if value == 70:
        from asyncio import CancelledError  # which no other function here needs

        raise CancelledError
    return value
