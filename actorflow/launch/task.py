"""Which process of a cluster this one is: its job, its number, and where the chief is to be found."""

from __future__ import annotations

from dataclasses import dataclass

from actorflow.errors import ConfigError

JOBS = ("chief", "ps", "worker")
"""What a process does: it decides, it holds parameters, it computes."""

OWN = "own variables"
"""The source of a task that stands in actorflow's own variables."""


@dataclass(frozen=True, slots=True)
class Task:
    """One process of a cluster.

    Attributes:
        job: One of `JOBS`.
        index: Its number within the job, from 0.
        ps, workers: How many of these the cluster has, at least 1 each.
        coordinator: The address at which the chief is to be found, such as "tcp://10.0.0.1:4000".
        source: Which variables said so.
        incarnation: Which one of it this is, in milliseconds since the epoch; None when nobody has said, and
            the process takes the time of its start.
        bind: The address at which others are to find this one; None when it may choose.
        local: Its number among the processes of its machine, for the choice of a device; None when unknown.
        restarts: How often the engine has started it again, as far as that says.
    """

    job: str
    index: int
    ps: int
    workers: int
    coordinator: str
    source: str = OWN
    incarnation: int | None = None
    bind: str | None = None
    local: int | None = None
    restarts: int = 0

    @property
    def name(self) -> str:
        """The name of the process: chief, ps0, worker1."""
        return self.job if self.job == "chief" else f"{self.job}{self.index}"

    def environ(self) -> dict[str, str]:
        """Returns the variables from which a child detects this task, source apart."""
        said = {
            "ACTORFLOW_JOB": self.job,
            "ACTORFLOW_TASK_INDEX": self.index,
            "ACTORFLOW_COORDINATOR": self.coordinator,
            "ACTORFLOW_PS": self.ps,
            "ACTORFLOW_WORKERS": self.workers,
            "ACTORFLOW_INCARNATION": self.incarnation,
            "ACTORFLOW_BIND": self.bind,
            "ACTORFLOW_LOCAL_INDEX": self.local,
        }
        return {name: str(value) for name, value in said.items() if value is not None}


def seat(rank: int, ps: int) -> tuple[str, int]:
    """Returns job and index of the process of a rank: the chief is 0, then come ps, then workers."""
    if rank == 0:
        return "chief", 0
    return ("ps", rank - 1) if rank <= ps else ("worker", rank - 1 - ps)


def address(text: str, variable: str, *, any_port: bool = False) -> str:
    """Returns an address with its transport; `host:port` is one of tcp.

    Args:
        text: The address.
        variable: In which it stood, for the error.
        any_port: Whether the port may be 0: whoever binds it gets one that is free.

    Raises:
        ConfigError: when it is none; names the variable in which it stood.
    """
    kind, apart, rest = text.rpartition("://")
    if not apart:
        kind = "tcp"
    if kind == "ipc" and rest:
        return f"ipc://{rest}"
    host, colon, port = rest.rpartition(":")
    if (
        kind != "tcp"
        or not colon
        or not host
        or set(host) & set(" /,@")
        or not _is_port(port, 0 if any_port else 1)
    ):
        expected = "host:port, tcp://host:port or ipc:///path"
        message = f"{variable} must be an address, {expected}, got {text!r}"
        raise ConfigError(message)
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        message = f"{variable} must have brackets around an IPv6 host, as in [::1]:4000, got {text!r}"
        raise ConfigError(message)
    return f"tcp://{rest}"


def _is_port(text: str, least: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and least <= int(text) <= 65535
