"""Names of hosts that are known later, and addresses that hold for one link."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.cluster import entry, hosts
from actorflow.cluster.entry import StopCalls, StopManner, code_of, serve
from actorflow.cluster.hosts import HostNotFound, here, in_thread, is_name, retry_until_found
from actorflow.cluster.sockets import bind_of, bindable, check_names, dial_address
from actorflow.errors import ActorflowError, ConfigError, CoordinatorLost, NotReady
from actorflow.launch.exits import Exit
from actorflow.launch.task import Task
from actorflow.transport.rules.address import Tcp, in_zone_of, place
from actorflow.transport.zeromq import Keyring
from tests.support.busy import HANG_S, until
from tests.support.virtual_loop import VirtualLoop

Infos = Sequence[tuple[Any, Any, int, str, Any]]


class Names:
    """Names that are known after so many looks.

    Attributes:
        looks: How often somebody has looked.
    """

    def __init__(self, known: dict[str, list[str]], after: int = 0) -> None:
        self._known = known
        self._after = after
        self.looks = 0

    def __call__(self, host: str, port: int, /, *, type: int) -> Infos:
        self.looks += 1
        if self.looks <= self._after or host not in self._known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [info for number in self._known[host] for info in socket.getaddrinfo(number, port, type=type)]


def run(main: Coroutine[Any, Any, Any]) -> tuple[Any, float]:
    """Runs in virtual time; returns the result and how long it took."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        began = runner.get_loop().time()
        return runner.run(main), runner.get_loop().time() - began


async def at_once(find: Callable[[], Any]) -> Any:
    return find()


def worker(coordinator: str = "tcp://digits-0.digits:4000", **options: Any) -> Task:
    return Task("worker", 0, 1, 1, coordinator, **options)


# ------------------------------------------------------------------------------ until it is known


def test_a_name_that_is_known_later_is_found_then(caplog: pytest.LogCaptureFixture) -> None:
    names = Names({"digits-0.digits": ["127.0.0.1"]}, after=5)
    found, took_s = run(retry_until_found(lambda: bind_of(worker(), names), 60.0, at_once))
    assert found == "tcp://127.0.0.1:0"
    assert took_s < 6.0
    assert names.looks == 6
    said = "the chief's host must be one that can be found, got digits-0.digits: Name or service not known; "
    assert [record.getMessage() for record in caplog.records] == [f"{said}it is looked for again, for 60 s"]


def test_a_name_that_nobody_ever_knows_ends_the_look_in_time_with_69() -> None:
    async def main() -> ActorflowError:
        with pytest.raises(
            NotReady, match="got digits-0.digits: Name or service not known, for 60 s"
        ) as told:
            await retry_until_found(lambda: bind_of(worker(), Names({})), 60.0, at_once)
        assert "--ready-s" in str(told.value)
        return told.value

    error, took_s = run(main())
    assert 60.0 <= took_s < 60.1
    assert code_of(error) == Exit.LOST


@given(st.integers(0, 40), st.floats(0.01, 300.0))
def test_a_look_finds_what_is_known_in_time_and_never_outlasts_it(after: int, ready_s: float) -> None:
    names = Names({"digits-0.digits": ["127.0.0.1"]}, after)

    async def main() -> bool:
        try:
            return bool(await retry_until_found(lambda: bind_of(worker(), names), ready_s, at_once))
        except NotReady:
            return False

    found, took_s = run(main())
    assert took_s <= ready_s + 1e-6
    assert found == (names.looks > after)
    assert found or took_s >= ready_s - 1e-6
    assert names.looks <= 6 + ready_s / hosts.MOST_S + 1  # a name server has other work


def test_an_error_of_another_kind_is_told_at_once() -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match="which no host is called"):
            await retry_until_found(lambda: bind_of(worker(f"tcp://{'x' * 64}.y:4000")), 60.0, at_once)

    assert run(main())[1] == 0.0


def test_a_chief_that_is_not_where_its_name_leads_looks_again() -> None:
    """As a pod that was started again, whose name leads to where it was before."""
    names = Names({"chief.a": ["192.0.2.1"]})
    with pytest.raises(
        HostNotFound, match="a process is found at a host that is its own, got chief.a: Cannot assign"
    ):
        bindable("tcp://chief.a:4000", names)
    names = Names({"chief.a": ["192.0.2.1", "127.0.0.1"]})
    assert bindable("tcp://chief.a:4000", names) == "tcp://127.0.0.1:4000"
    assert bind_of(Task("chief", 0, 1, 1, "tcp://chief.a:4000"), names) == "tcp://127.0.0.1:4000"
    assert bind_of(worker(bind="tcp://chief.a:0"), names) == "tcp://127.0.0.1:0"


def test_a_network_that_comes_later_is_waited_for() -> None:
    def unreachable(host: str, port: int, /, *, type: int) -> Infos:
        return [(socket.AF_INET6, type, 0, "", ("ff02::1", port, 0, 0))]

    with pytest.raises(HostNotFound):
        here(Tcp("x.y", 1), unreachable)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("tcp://chief:1", True),
        ("tcp://digits-0.digits:1", True),
        ("tcp://localhost:1", False),
        ("tcp://10.0.0.1:1", False),
        ("tcp://[fe80::1%eth0]:1", False),
        ("ipc:///run/x", False),
    ],
)
def test_what_is_a_name(address: str, name: bool) -> None:
    assert is_name(place(address)) is name


def test_numbers_and_files_are_asked_of_nobody() -> None:
    names = Names({})
    for bind in ("tcp://10.0.0.7:4000", "tcp://localhost:0", "tcp://[::1]:0", "ipc:///run/x/chief"):
        assert bindable(bind, names) == bind
        assert dial_address(bind, names) == bind
    assert names.looks == 0


def test_a_name_without_keys_is_refused_before_anybody_looks_for_it() -> None:
    with pytest.raises(ConfigError, match="without keys tcp stays on this machine, got address 'chief.a'"):
        check_names(["tcp://127.0.0.1:1", "tcp://chief.a:4000"], None)
    check_names(["tcp://127.0.0.1:1", "tcp://localhost:4000", "ipc:///x"], None)


# ---------------------------------------------------------------------------------- IPv6


def test_a_name_that_has_ipv4_is_dialled_as_it_is_and_one_that_has_not_by_its_number() -> None:
    names = Names({"both.a": ["::1", "127.0.0.1"], "six.a": ["::1"]})
    assert dial_address("tcp://both.a:4000", names) == "tcp://both.a:4000"
    assert dial_address("tcp://six.a:4000", names) == "tcp://[::1]:4000"
    assert bindable("tcp://both.a:4000", names) == "tcp://127.0.0.1:4000"


def link_local() -> str:
    """An address of this machine that holds for one link, with its zone; "" where it has none."""
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        return ""
    for number, _, _, scope, _, name in map(str.split, lines):
        if scope == "20":
            return f"{':'.join(number[i : i + 4] for i in range(0, 32, 4))}%{name}"
    return ""


LINK_LOCAL = link_local()
needs_link = pytest.mark.skipif(not LINK_LOCAL, reason="this machine has no address of one link")


@needs_link
def test_the_way_to_a_host_of_one_link_keeps_its_zone() -> None:
    zone = LINK_LOCAL.partition("%")[2]
    bind = bind_of(worker(f"tcp://[{LINK_LOCAL}]:4000"))
    assert bind.startswith("tcp://[fe80:")
    assert bind.endswith(f"%{zone}]:0")
    names = Names({"chief.a": [LINK_LOCAL]})
    assert f"%{zone}]:" in bindable("tcp://chief.a:4000", names)
    assert f"%{zone}]:" in dial_address("tcp://chief.a:4000", names)


def test_a_zone_is_the_name_that_this_machine_has_for_it() -> None:
    assert in_zone_of("tcp://[fe80::2%a]:1", "tcp://[fe80::1%b]:2") == "tcp://[fe80::2%b]:1"
    for at, own in (
        ("tcp://[fe80::2%a]:1", "tcp://10.0.0.1:2"),
        ("tcp://[fd00::2]:1", "tcp://[fe80::1%b]:2"),
        ("ipc:///x", "tcp://[fe80::1%b]:2"),
    ):
        assert in_zone_of(at, own) == at


# ------------------------------------------------------------------------------ a process that waits


def test_who_is_stopped_while_it_looks_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, release = threading.Event(), threading.Event()

    def hangs(*_: object) -> str:
        looked.set()
        release.wait(60)  # as a name server that does not answer
        raise HostNotFound("never")

    monkeypatch.setattr(entry, "bind_of", hangs)
    orphaned: list[Callable[[], None]] = []
    monkeypatch.setattr(entry, "take", lambda _: 0)
    monkeypatch.setattr(entry, "on_parent_death", lambda pipe, loop, hear: orphaned.append(hear))

    async def main() -> ActorflowError | None:
        loop = asyncio.get_running_loop()
        calls = StopCalls(loop)
        serving = asyncio.ensure_future(serve(None, worker("tcp://127.0.0.1:1"), StopManner(), calls))  # type: ignore[arg-type]
        await loop.run_in_executor(None, looked.wait)
        (parent_dies,) = orphaned
        parent_dies()
        return await serving

    try:
        reason = asyncio.run(main())
    finally:
        release.set()
    assert isinstance(reason, CoordinatorLost)


def test_what_a_thread_finds_late_disturbs_nobody() -> None:
    release, asked = threading.Event(), threading.Event()

    def late() -> int:
        asked.set()
        release.wait(60)
        return 1

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(in_thread(late))
        await loop.run_in_executor(None, asked.wait)
        task.cancel()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await in_thread(lambda: 2) == 2

    asyncio.run(main())


# ------------------------------------------------------------------------------ whole clusters

PROGRAM = """
import os, socket
from pathlib import Path
from tests.cluster.children import build

known = socket.getaddrinfo

def later(host, *more, **options):
    if host == socket.gethostname() and not Path({there!r}).exists():
        Path({asked!r} + os.environ["ACTORFLOW_JOB"]).touch()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return known(host, *more, **options)

socket.getaddrinfo = later
"""


def own_name() -> str:
    """The name of this machine, where it leads here; "" where it does not."""
    name = socket.gethostname()
    try:
        return name if is_name(Tcp(name, 1)) and here(Tcp(name, 1)) else ""
    except ConfigError:
        return ""


def started(program: str, address: str, folder: Path) -> list[subprocess.Popen[str]]:
    """Starts a chief, a ps and a worker, as an engine does, with keys."""
    keys = folder / "ring"
    if not keys.exists():
        Keyring.new().save(keys)
    argv = [sys.executable, "-m", "actorflow", "worker", program, "--keys", str(keys), "--steps", "5"]
    found = []
    for job in ("worker", "ps", "chief"):
        env = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            **Task(job, 0, 1, 1, address).environ(),
        }
        found.append(
            subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    return found


def free_port(family: int = socket.AF_INET) -> int:
    with socket.socket(family) as free:
        free.bind(("", 0))
        return int(free.getsockname()[1])


@pytest.mark.processes
@pytest.mark.skipif(not own_name(), reason="the name of this machine does not lead to it")
def test_a_cluster_whose_chief_has_its_name_later_trains(tmp_path: Path) -> None:
    there, program = tmp_path / "there", tmp_path / "later.py"
    program.write_text(PROGRAM.format(there=str(there), asked=str(tmp_path / "asked-")))
    processes = started(str(program), f"tcp://{own_name()}:{free_port()}", tmp_path)
    until(lambda: len(list(tmp_path.glob("asked-*"))) == 3, 120)
    assert [process.poll() for process in processes] == [None] * 3
    there.touch()
    said = [process.communicate(timeout=HANG_S)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    assert all("it is looked for again, for 60 s" in text for text in said)


@needs_link
@pytest.mark.processes
def test_a_cluster_on_addresses_of_one_link_trains(tmp_path: Path) -> None:
    address = f"tcp://[{LINK_LOCAL}]:{free_port(socket.AF_INET6)}"
    processes = started("tests.cluster.children:build", address, tmp_path)
    said = [process.communicate(timeout=HANG_S)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said


@pytest.mark.processes
def test_a_name_that_nobody_knows_ends_a_process_with_69(tmp_path: Path) -> None:
    keys = tmp_path / "ring"
    Keyring.new().save(keys)
    argv = [sys.executable, "-m", "actorflow", "worker", "tests.cluster.children:build", "--keys", str(keys)]
    env = {**os.environ, **Task("worker", 0, 1, 1, "tcp://none.invalid:4000").environ()}
    ran = subprocess.run([*argv, "--ready-s", "0.5"], env=env, capture_output=True, text=True, timeout=HANG_S)
    assert ran.returncode == 69, ran.stderr
    assert "NotReady: the chief's host must be one that can be found, got none.invalid: " in ran.stderr
