"""The debug endpoint of a real process: a socket at which it answers whoever asks what it does."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from actorflow.cluster.inspect.monitor import Monitor, socket_name
from actorflow.cluster.process.process import Process
from actorflow.errors import ConfigError
from actorflow.launch.inherited import FOLDER
from actorflow.transport.rules.address import Address
from actorflow.transport.zeromq import Responder

log = logging.getLogger("actorflow.cluster")


def folder_of(address: Address, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Returns the folder of the cluster of a process; None where it has none on this machine.

    Args:
        address: Where the process is dialled: if that is a socket file, its folder is the cluster's.
        environ: The environment of the process.
    """
    scheme, _, path = address.at.partition("://")
    if scheme == "ipc":
        return Path(path).parent
    said = environ.get(FOLDER)
    return Path(said) if said else None


@contextmanager
def serve_debug_endpoint(
    process: Process, folder: Path | None, moved: Callable[[], tuple[int, int]] = lambda: (0, 0)
) -> Iterator[None]:
    """Answers while the block lasts, in a thread beside the loop that enters it.

    Without a folder, or where the socket cannot be opened, nobody can ask: that is no reason not to train.

    Args:
        process: Which tells.
        folder: Of its cluster; only who can enter it can ask.
        moved: Returns how many bytes have left the process, and how many have come.
    """
    if folder is None:
        yield
        return
    path = folder / socket_name(process.name, process.incarnation)
    with Monitor(process, moved=moved) as monitor:
        try:
            responder = Responder(process.name, [f"ipc://{path}"], monitor.answer)
        except ConfigError as error:
            log.warning("'%s' cannot be asked what it does: %s", process.name, error.what)
            yield
            return
        try:
            yield
        finally:
            responder.close()
            with suppress(OSError):
                path.unlink(missing_ok=True)
