"""The record of who ran a cluster, and on what: it decides the bits of a run, with the order of updates.

The chief asks each process when the cluster has come together; one that comes later, or again, is not in it.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from actorflow.kernels.device.libraries import libraries
from actorflow.transport.codec.registry import travels

DECIDING = ("program", "actorflow", "numpy", "simd", "blas", "blas_threads")
"""What processes must share so that it does not matter which of them computes."""


@travels("cluster.about")
@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """Process agent → chief: what the process is, in its present incarnation.

    Attributes:
        name: As in addresses.
        incarnation: Which incarnation of it this is.
        host: Its machine.
        pid: Its number there.
        program: The hash of what it has built.
        python: Version of the interpreter; decides no bit.
        actorflow: Version of this package.
        numpy: Version of numpy.
        simd: The instructions that numpy uses.
        blas: Name, version and kernels of the BLAS.
        blas_threads: How many threads a product is spread over.
        kernel_threads: How many threads slow kernels run on; each runs on one, so this decides no bit.
    """

    name: str
    incarnation: int
    host: str
    pid: int
    program: str
    python: str
    actorflow: str
    numpy: str
    simd: str
    blas: str
    blas_threads: int
    kernel_threads: int


def about(name: str, incarnation: int, program: str, kernel_threads: int) -> ProcessRecord:
    """Returns the record of this process.

    Args:
        name: What it is called in the cluster.
        incarnation: Which incarnation of it this is.
        program: The hash of what it has built.
        kernel_threads: Of its device.
    """
    found = libraries()
    return ProcessRecord(
        name,
        incarnation,
        socket.gethostname(),
        os.getpid(),
        program,
        platform.python_version(),
        _version(),
        found.numpy,
        found.simd,
        found.blas,
        found.blas_threads,
        kernel_threads,
    )


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What decides the bits of a run.

    Attributes:
        program: The hash of its graph, constants and optimizer; see `graph.fingerprint`.
        seed: Of the graph: initial values, dropout, and what else draws.
        policy: Under which it trains, as a text; None before it does.
        processes: Those that were there when the cluster was opened, the chief first.
    """

    program: str
    seed: int
    policy: str | None
    processes: tuple[ProcessRecord, ...]

    def under(self, policy: object) -> RunRecord:
        """Returns this for a run under a policy."""
        return replace(self, policy=str(policy))

    def differences(self) -> Iterator[str]:
        """Yields a line about everything that decides bits and is not the same in all processes."""
        for field in DECIDING:
            found: dict[Any, list[str]] = {}
            for process in self.processes:
                found.setdefault(getattr(process, field), []).append(process.name)
            if len(found) > 1:
                told = "; ".join(f"{value} in {', '.join(names)}" for value, names in found.items())
                yield f"processes differ in {field}, which decides bits: {told}"

    def as_data(self) -> dict[str, Any]:
        """Returns it as plain data."""
        return asdict(self)


def _version() -> str:
    try:
        return version("actorflow")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "(not installed)"
