"""Which cluster `dump` and `top` look at, and how its processes are asked.

A cluster on this machine has a folder, and in it a socket for each process that answers such questions
(`cluster.inspect.monitor`); whoever can enter the folder may ask. Others are asked at given addresses.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from actorflow.cli.display.text_table import columns
from actorflow.cluster.inspect.monitor import sockets
from actorflow.cluster.inspect.poll_all import TIMEOUT_S, DebugAddress
from actorflow.errors import LaunchError, TransportError
from actorflow.launch.rundir import RunningCluster, running
from actorflow.runtime.clock import epoch_ms
from actorflow.transport import zeromq
from actorflow.transport.rules.address import Address

Request = Callable[[str, bytes, float, Path | None], bytes]
"""Asks an address, within so many seconds, with the keys of a file."""


def request(address: str, payload: bytes, timeout_s: float, keys: Path | None) -> bytes:
    """Asks a process; see `transport.zeromq.request`.

    Raises:
        PeerLost: it does not answer in time, or refuses the key, or nobody is there.
        ConfigError: the address is none, or needs keys.
    """
    if keys is None or not address.startswith("tcp:"):
        return zeromq.request(Address(address), payload, timeout_s)
    ring = zeromq.Keyring.load(keys)
    return zeromq.request(Address(address, ring.ring.current.public), payload, timeout_s, ring)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what says which cluster, and how it is asked."""
    add = parser.add_argument
    add("run", nargs="?", metavar="RUN", help="its name, or how that begins; needed where several run here")
    add("--list", action="store_true", help="list the clusters of this machine, and look at none")
    add(
        "--address",
        action="append",
        default=[],
        type=_address,
        metavar="NAME=ADDRESS",
        help="ask this process there, as in worker0=tcp://host:4001; once for each",
    )
    add("--keys", type=Path, metavar="FILE", help="the keys of a cluster that has some")
    add(
        "--timeout-s", type=_seconds, default=TIMEOUT_S, metavar="S",
        help=f"how long a process may take to answer (default {TIMEOUT_S:g})",
    )  # fmt: skip


def _address(text: str) -> tuple[str, str]:
    name, equals, address = text.partition("=")
    if not (name and equals and "://" in address):
        message = f"must read NAME=ADDRESS, as in worker0=tcp://127.0.0.1:4001, got {text[:60]!r}"
        raise argparse.ArgumentTypeError(message)
    return name, address


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        message = f"must be seconds, above 0 and at most 3600, got {text[:60]!r}"
        raise argparse.ArgumentTypeError(message)
    return seconds


class ObservedCluster:
    """The cluster that is looked at.

    Attributes:
        title: What it is called.
    """

    def __init__(self, args: argparse.Namespace, ask: Request | None = None) -> None:
        self._ask = request if ask is None else ask
        self._keys: Path | None = args.keys
        self._addresses: Sequence[tuple[str, str]] = args.address
        self._run = None if args.address else choose(args.run, running())
        self.title = "" if self._run is None else f"run {self._run.run}"

    def places(self) -> list[DebugAddress]:
        """Returns where its processes are now: one that has started again is elsewhere.

        Raises:
            LaunchError: the cluster has ended.
        """
        if self._run is None:
            return [self._place(name, address, None) for name, address in self._addresses]
        now = {run.run: run for run in running()}.get(self._run.run)
        if now is None:
            message = f"run {self._run.run} has ended"
            raise LaunchError(message)
        there = sockets(now.path)
        names = sorted({*there, *now.processes})
        return [self._local(name, there.get(name), now.processes.get(name)) for name in names]

    def _local(self, name: str, socket: Path | None, said: Any) -> DebugAddress:
        pid = said.get("pid") if isinstance(said, dict) else None
        pid = pid if isinstance(pid, int) else None
        if socket is None:
            return DebugAddress(name, _no_question, pid)
        return self._place(name, f"ipc://{socket}", pid)

    def _place(self, name: str, address: str, pid: int | None) -> DebugAddress:
        return DebugAddress(name, partial(self._ask_now, address), pid)

    def _ask_now(self, address: str, payload: bytes, timeout_s: float) -> bytes:
        return self._ask(address, payload, timeout_s, self._keys)


def _no_question(payload: bytes, timeout_s: float) -> bytes:
    raise TransportError("it has not opened its socket for questions")


def list_table(found: Sequence[RunningCluster], now_ms: Callable[[], int] = epoch_ms) -> list[str]:
    """Returns a table of clusters: the name, what each runs, for how long, and how many processes it has."""
    rows = [["run", "program", "age", "processes"]]
    for run in found:
        age = duration((now_ms() - run.since_ms) / 1000)
        rows.append([run.run, run.program or "unknown", age, str(len(run.processes))])
    return list(columns(rows))


def list_all() -> int:
    """Prints the clusters that run here; returns 0, or 1 where there are none."""
    found = running()
    print("\n".join(list_table(found)) if found else "no cluster of this user runs on this machine")
    return 0 if found else 1


def duration(seconds: float) -> str:
    """Returns a span of time in its two largest units: "42 s", "3 min 20 s", "5 h 2 min", "3 d 4 h"."""
    whole = max(0, round(seconds))
    units = (("d", whole // 86400), ("h", whole // 3600 % 24), ("min", whole // 60 % 60), ("s", whole % 60))
    first = next((n for n, (_, value) in enumerate(units) if value), len(units) - 1)
    return " ".join(f"{value} {unit}" for unit, value in units[first : first + 2] if value) or "0 s"


def choose(name: str | None, found: Sequence[RunningCluster]) -> RunningCluster:
    """Returns the cluster of that name, or the only one.

    Raises:
        LaunchError: there is none, or the name fits several or none.
    """
    fitting = [run for run in found if name is None or run.run.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(run.run for run in found)
    table = "\n".join(f"  {line}" for line in list_table(fitting))
    if not found:
        message = "no cluster of this user runs on this machine"
        hint = "start one with actorflow launch, or name its processes with --address"
    elif not fitting:
        message, hint = f"no run begins with {name!r}; running: {there}", "name one of these"
    else:
        message = f"{len(fitting)} clusters fit:\n{table}"
        hint = "name one: the beginning of its name is enough"
    raise LaunchError(message, hint=hint)
