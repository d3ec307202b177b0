"""Ray: an actor of another process that is called with an array; large ones go through its shared memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.peers.second import Second, obey, second

NOTE = "calls from driver to actor, all of a round outstanding; each returns the size of its array"
_MOST = 500  # 64 B calls a round: one takes about as long as 100 of others


class Ray:
    """The first process's end: the driver is a process of its own, which keeps the time."""

    def __init__(self, driver: Second) -> None:
        self._driver = driver

    async def stream(self, size: int, n: int) -> float:
        """See `zmq_.Raw`; of many small messages it sends fewer, and the time is scaled."""
        few = min(n, _MOST)
        return await self._driver.seconds("stream", size, few) * n / few

    async def ask(self, size: int, n: int) -> float:
        """See `zmq_.Raw`; likewise."""
        few = min(n, _MOST // 5)
        return await self._driver.seconds("ask", size, few) * n / few


@contextmanager
def open_way() -> Iterator[Ray]:
    """Starts Ray, with an object store of 1 GiB."""
    variables = {"RAY_DISABLE_IMPORT_WARNING": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    with second("peers.ray_", variables=variables) as driver:
        yield Ray(driver)


def main() -> None:
    """Is the driver."""
    ray: Any = import_module("ray")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=1 << 30,
    )

    @ray.remote
    class Taker:
        def take(self, array: Any) -> int:
            return int(array.nbytes)

    taker = Taker.remote()
    ray.get(taker.take.remote(np.ones(1)))

    def stream(size: int, n: int) -> float:
        array = np.ones(size // 4, np.float32)
        start = perf_counter()
        found = ray.get([taker.take.remote(array) for _ in range(n)])
        seconds = perf_counter() - start
        assert found == [size] * n
        return seconds

    def ask(size: int, n: int) -> float:
        array = np.ones(size // 4, np.float32)
        start = perf_counter()
        for _ in range(n):
            ray.get(taker.take.remote(array))
        return perf_counter() - start

    obey({"stream": stream, "ask": ask})
    ray.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
