"""Runs `actorflow launch`, harms one of its processes at a drawn moment, and tells what came of it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from actorflow.launch.process_id import ProcessId
from actorflow.launch.rundir import running, sweep
from tests.kill.matrix import Cell, Fate, Harm, Role
from tests.kill.notes import Life, read
from tests.support.busy import Stopwatch

PROGRAM = Path(__file__).with_name("program.py")
ROOT = PROGRAM.parents[2]

PS, STEPS = 2, 120
LINKS = "silence_s=3,busy_s=3,gone_s=1,heartbeat_s=0.4"
LOST_S = 1.0
PAUSE_S, LONG_S = 0.7, 6.5
"""Shorter than the limits; longer than all of them: 3 s until links give up, and LOST_S more."""

START_S, END_S = 60.0, 60.0
"""How long a cluster may take to make its first updates, and to end after what happened to it; see `tests.support.busy`."""

GONE_S = 2.0
"""How long after the end of its launcher the last process may be there."""


class Overdue(AssertionError):
    """Something was waited for in vain: a hang."""


@dataclass
class Outcome:
    """What came of it.

    Attributes:
        victim: The process that was harmed.
        at: Updates that were made before.
        during: Updates that were made from then until it went on, was back, or the run ended.
        code: The exit code of the launcher.
        text: What its user read.
        logs: What the processes printed, by name.
        ended_s: From the harm, or from when a process that was stopped went on, to the end.
        seconds: Altogether.
        lives: What the processes noted.
        orphans: Processes that were left.
        left: Files that were left.
    """

    victim: str = ""
    at: int = 0
    during: int = 0
    code: int | None = None
    text: str = ""
    logs: dict[str, str] = field(default_factory=dict)
    ended_s: float = 0.0
    seconds: float = 0.0
    lives: list[Life] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


class Launched:
    """`actorflow launch` with the program of this folder, and all that it starts; nothing is left at the end."""

    def __init__(self, *arguments: str, workers: int, ps: int = PS, steps: int = STEPS) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="af-kill-"))
        self.notes, self.home = self.folder / "notes", self.folder / "run"
        self.notes.mkdir()
        self.home.mkdir(mode=0o700)
        self.slow = self.notes / "slow"
        self.slow.touch()
        self.output = (self.folder / "output").open("wb")
        argv = ["--ps", ps, "--workers", workers, "--steps", steps, "--links", LINKS, "--lost-s", LOST_S]
        argv += ["--no-progress", "--logs", self.folder / "logs", *arguments]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "actorflow", "launch", str(PROGRAM), *map(str, argv)],
            cwd=ROOT,
            env={**os.environ, "KILL_NOTES": str(self.notes), "XDG_RUNTIME_DIR": str(self.home)},
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )
        pid = ProcessId.of(self.process.pid)
        assert pid is not None
        self.known: dict[ProcessId, str] = {pid: "launcher"}
        self.runs: set[str] = set()

    # -- what is to be seen ---------------------------------------------------------------------------

    def look(self) -> list[Life]:
        """Returns what was noted so far, and remembers every process that there ever was."""
        lives = read(self.notes)
        self.known |= {life.pid: life.name for life in lives}
        for run in running(self.home / f"af-{os.getuid()}"):
            self.runs.add(run.run)
            for name, said in run.processes.items():
                pid = ProcessId.of(said["pid"])
                if pid is not None and str(ROOT) in _command(pid.pid):
                    self.known[pid] = name
        return lives

    def pid(self, name: str) -> ProcessId:
        """Returns the present process of a name."""
        if name == "launcher":
            return next(iter(self.known))
        return max((life.pid for life in self.look() if life.name == name), key=lambda pid: pid.started)

    def told(self) -> int:
        """Returns how many updates whoever trains has heard of."""
        return sum(len(life.of("told")) for life in self.look() if life.name == "chief")

    def took_part(self, rank: int) -> int:
        """Returns how many updates a worker had a contribution in, used or not."""
        told = [u for life in self.look() if life.name == "chief" for u in life.of("told")]
        return sum(rank in (*(each[0] for each in u["chosen"]), *u["dropped_by"]) for u in told)

    def alive(self) -> list[str]:
        """Returns who is there."""
        return [f"{name} ({pid.pid})" for pid, name in self.known.items() if pid.is_alive()]

    def text(self) -> str:
        """Returns what the user has read."""
        return (self.folder / "output").read_text()

    def logs(self) -> dict[str, str]:
        """Returns what the others have printed."""
        return {path.stem: path.read_text() for path in (self.folder / "logs").glob("*.log")}

    def until(self, true: Callable[[], object], within_s: float, what: str) -> None:
        """Waits for a condition or for the end of the launcher.

        Raises:
            Overdue: neither comes.
        """
        watch = Stopwatch()
        while not true() and self.process.poll() is None:
            if watch.counted_s() > within_s:
                shown = "\n".join(f"{n} | {t[-2000:]}" for n, t in {"": self.text(), **self.logs()}.items())
                message = f"{what} did not come within {within_s:g} s; there are {self.alive()}\n{shown}"
                raise Overdue(message)
            time.sleep(0.05)

    def until_told(self, count: int) -> None:
        """Waits for so many updates."""
        self.until(lambda: self.told() >= count, START_S, f"update {count}")

    def wait(self, within_s: float = END_S) -> int:
        """Waits for the end of the launcher and returns its exit code."""
        self.until(lambda: False, within_s, "the end")
        return self.process.wait()

    def left(self) -> list[str]:
        """Returns files that are left: of runs whose launcher is alive or died in peace, and in memory."""
        home = self.home / f"af-{os.getuid()}"
        shared = [name for name in os.listdir("/dev/shm") if any(run in name for run in self.runs)]
        return [str(path) for path in (home.iterdir() if home.exists() else ())] + shared

    # -- life -------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.look()
            self.process.kill()
            self.process.wait()
        for pid in self.known:
            if pid.is_alive():
                os.kill(pid.pid, signal.SIGKILL)
        self.output.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def harmed(cell: Cell, seed: int) -> Outcome:
    """Runs a cluster, does what a cell says at a moment that the seed draws, and returns what came of it.

    Raises:
        Overdue: it hangs.
    """
    chance, out, began = random.Random(f"{cell.name} {seed}"), Outcome(), time.monotonic()
    policy, workers = ("backup:2/3", 3) if cell.role is Role.BACKUP else ("sync", 2)
    transport = chance.choice(("ipc", "tcp"))
    with Launched("--policy", policy, "--transport", transport, workers=workers) as run:
        run.until_told(chance.randint(3, 15))
        time.sleep(chance.random() * 0.1)
        out.victim = _victim(cell, run, chance)
        pid = run.pid(out.victim)
        rank = int(out.victim[-1]) if out.victim.startswith("worker") else None
        out.at, before = run.told(), 0 if rank is None else run.took_part(rank)
        since = time.monotonic()
        os.kill(pid.pid, signal.SIGKILL if cell.harm is Harm.KILL else signal.SIGSTOP)
        if cell.harm is not Harm.KILL:
            _stay(run, PAUSE_S if cell.harm is Harm.PAUSE else LONG_S)
            out.during = run.told() - out.at
            since = time.monotonic()
            if pid.is_alive():
                os.kill(pid.pid, signal.SIGCONT)
            before = 0 if rank is None else run.took_part(rank)
        if cell.returns and rank is not None:
            back = before + 2  # one may have been on its way when it was killed
            run.until(lambda: run.took_part(rank) >= back, END_S, f"{out.victim} in an update again")
        if cell.fate is Fate.GOES_ON:
            run.slow.unlink()
        out.code = run.wait()
        _look_after(run, out)
        out.ended_s, out.seconds = time.monotonic() - since, time.monotonic() - began
    return out


def _victim(cell: Cell, run: Launched, chance: random.Random) -> str:
    if cell.role is Role.PS:
        return f"ps{chance.randrange(PS)}"
    if cell.role is Role.WORKER:
        return f"worker{chance.randrange(2)}"
    if cell.role is Role.BACKUP:
        told = [u for life in run.look() if life.name == "chief" for u in life.of("told")]
        late = [rank for u in told for rank in u["dropped_by"]]
        return f"worker{late[-1] if late else 0}"
    return str(cell.role.value)


def _stay(run: Launched, seconds: float) -> None:
    """Lets time pass, unless the launcher ends."""
    end = time.monotonic() + seconds
    while run.process.poll() is None and time.monotonic() < end:
        run.look()
        time.sleep(0.05)


def _look_after(run: Launched, out: Outcome) -> None:
    """Notes what is left when all have had their moment to end."""
    watch = Stopwatch()
    run.look()
    while run.alive() and watch.counted_s() < GONE_S:
        run.look()
        time.sleep(0.05)
    out.orphans, out.text, out.logs, out.lives = run.alive(), run.text(), run.logs(), run.look()
    if out.code == -signal.SIGKILL:  # what a launcher has left that was killed, the next one removes
        sweep(run.home / f"af-{os.getuid()}")
    out.left = run.left()
