"""Which worker of pytest-xdist runs what, when the whole suite runs: clusters of processes come one after another.

A cluster of real processes is as wide as two processors, and then waits for seconds: for a silence, for an end.
Beside another one it is slow where it should be quick, and the processors rest where both wait. So one worker has
all of them, and the other computes meanwhile; what is left they share by file.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

CLUSTERS = (
    "tests/cli/test_dump.py",
    "tests/cli/test_engines.py",
    "tests/cli/test_launch.py",
    "tests/cli/display/test_live.py",
    "tests/cli/display/test_output.py",
    "tests/cli/test_starting.py",
    "tests/cli/test_worker.py",
    "tests/cluster/test_bits.py",
    "tests/cluster/test_come_and_go.py",
    "tests/cluster/test_connected.py",
    "tests/cluster/test_custom_processes.py",
    "tests/cluster/test_local.py",
    "tests/cluster/test_policies_processes.py",
    "tests/examples/test_processes.py",
    "tests/kill",
    "tests/launch",
    "tests/network",
    "tests/studies/test_live_backup.py",
    "tests/test_readme.py",
    "tests/transport/test_zeromq_processes.py",
)
"""Files and folders whose tests start clusters, or wait for sockets in real time."""


def unit(test: str) -> str:
    """Returns what a test belongs to; tests of one unit run on one worker, in their order."""
    path = test.partition("::")[0]
    return "clusters" if path.startswith(CLUSTERS) else path


class ClustersApart(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Hands out units in the order in which they were collected."""

    def schedule(self) -> None:
        self.config.option.loadscopereorder = (
            False  # else by their number of tests, which says little of their time
        )
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
