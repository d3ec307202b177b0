import asyncio
import os

import pytest

from actorflow.runtime.event_loop import loop_factory
from tests.launch.children import descriptors
from tests.support.busy import HANG_S


@pytest.fixture(params=["asyncio", "uvloop", "uvloop without pidfd"])
def run(request, monkeypatch):
    """Runs a coroutine function on each kind of loop, and sees that no descriptor is left."""
    if "without" in request.param:
        monkeypatch.setattr(os, "pidfd_open", lambda *_: (_ for _ in ()).throw(OSError(38, "forbidden")))
    factory = asyncio.new_event_loop if "asyncio" in request.param else loop_factory()

    factory().close()  # uvloop opens a pipe for the process with its first loop

    def ran(main):
        before = descriptors()
        with asyncio.Runner(loop_factory=factory) as runner:
            result = runner.run(asyncio.wait_for(main(), HANG_S))
        assert descriptors() == before
        return result

    return ran
