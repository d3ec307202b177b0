"""The device: results come back to the loop, BLAS keeps one thread, nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from threadpoolctl import threadpool_info

from actorflow.errors import SessionClosed
from actorflow.kernels.definition.registry import Kernel, elements
from actorflow.kernels.device.device import Device, Estimate, Shaped
from actorflow.runtime.clock import SystemClock


def with_device(body: Callable[[Device], Awaitable[Any]], threads: int = 2) -> Any:
    async def main() -> Any:
        device = Device("/cpu:0", asyncio.get_running_loop(), SystemClock(), threads=threads)
        try:
            return await body(device)
        finally:
            await device.close()

    return asyncio.run(main())


def submit(device: Device, job: Callable[[], Any]) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(result: Any, error: BaseException | None, seconds: float) -> None:
        assert threading.current_thread() is threading.main_thread()
        assert seconds >= 0
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    device.submit(job, done)
    return future


def test_every_job_comes_back_once_with_its_own_result() -> None:
    async def body(device: Device) -> Any:
        return await asyncio.gather(*(submit(device, partial(pow, k, 2)) for k in range(500)))

    assert with_device(body) == [k * k for k in range(500)]


def test_an_error_on_a_thread_comes_back_as_it_is() -> None:
    async def body(device: Device) -> Any:
        with pytest.raises(ZeroDivisionError):
            await submit(device, lambda: 1 // 0)
        return await submit(device, lambda: "still working")

    assert with_device(body) == "still working"


def test_closing_waits_for_the_running_job_and_drops_those_behind_it() -> None:
    started, release, ran = threading.Event(), threading.Event(), []

    async def body(device: Device) -> Any:
        def slow() -> None:
            started.set()
            release.wait(5)
            ran.append("slow")

        submit(device, slow)
        submit(device, lambda: ran.append("behind"))
        await asyncio.get_running_loop().run_in_executor(None, started.wait)
        closing = asyncio.create_task(device.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        release.set()
        await closing
        with pytest.raises(SessionClosed, match="device /cpu:0 is closed"):
            device.submit(lambda: None, lambda *_: None)

    with_device(body, threads=1)

    assert ran == ["slow"]
    assert not [t for t in threading.enumerate() if t.name.startswith("actorflow/")]


def test_blas_has_one_thread_while_a_device_is_open_and_the_old_number_after() -> None:
    def blas() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = blas()

    async def body(device: Device) -> Any:
        return blas()

    assert set(with_device(body)) <= {1}
    assert blas() == before


def test_an_estimate_says_what_the_last_firing_should_have_taken() -> None:
    estimate = Estimate(Kernel("k", "numpy", lambda a: a, elements), {})
    assert estimate.seconds == 0.0

    estimate.learn(1000.0, 0.0)  # a clock that stands still
    assert estimate.seconds == 0.0

    estimate.learn(1000.0, 5.0)
    assert estimate.seconds == 1000.0 * estimate.rate


def test_an_estimate_follows_what_is_measured_down_faster_than_up() -> None:
    estimate = Estimate(Kernel("k", "numpy", lambda a: a, elements), {})
    first = estimate.rate
    estimate.learn(10, 10 * first * 3)
    up = estimate.rate - first
    estimate.rate = first
    estimate.learn(10, 1e-30)

    assert 0 < up < first
    assert first - estimate.rate == pytest.approx(first / 2)


def test_the_cost_of_shapes_is_that_of_arrays() -> None:
    assert elements(Shaped((3, 4)), Shaped(())) == 13
    assert Shaped((0, 5)).size == 0
