"""The folder of a running cluster: sockets, logs, and a file that says which processes there are.

    $XDG_RUNTIME_DIR or the folder for temporary files /af-UID/RUN/
        cluster.json    the launcher, when it began, and its processes
        logs/NAME.log   what they printed, and further files of `logfile`
        NAME...         sockets

Others of the machine can neither enter it nor put it there beforehand. A launcher that ends removes its own,
and whoever makes one removes those whose launchers are dead.

Where that folder is in memory, the logs are in /var/tmp/af-UID-logs/RUN/logs, unless that is so as well.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from actorflow.errors import RunFolderError
from actorflow.launch.filesystems import in_memory
from actorflow.launch.process_id import ProcessId
from actorflow.runtime.clock import Entropy, epoch_ms

LONGEST = 107
"""Bytes of the path of a socket, as Linux has room for."""

KEPT_S = 7 * 86400.0
"""How long logs that were kept stay there, and how old half-made folders must be: see `sweep`."""

ON_DISK = Path("/var/tmp")
"""Where files outlive the boot of a machine, and so are not in its memory."""

_TEMPORARY = (Path("/tmp"), ON_DISK)
_HALF_MADE_S = 60.0
_FILE = "cluster.json"
_ELSEWHERE = "set XDG_RUNTIME_DIR or TMPDIR to a folder that you can write to, and that has room"
_NOBODY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A cluster whose launcher runs.

    Attributes:
        run: The name of the run.
        path: Its folder.
        launcher: Who started it.
        since_ms: When, in milliseconds since the epoch.
        processes: What the launcher says of each process, by name.
        program: What it runs, "" where nobody has said.
    """

    run: str
    path: Path
    launcher: ProcessId
    since_ms: int
    processes: Mapping[str, Any]
    program: str = ""


class RunDirectory:
    """The folder of one run, made now and removed by `close`.

    Args:
        under: The folder in which it is made; None for the one of this user, see `home`.
        environ: Where to look for XDG_RUNTIME_DIR.
        program: What the run is of, for whoever looks for it.
        on_disk: Where the logs go if the one of this user is memory.
        run: The name of the run; "" for one that is made up.

    Attributes:
        run: The name of the run.
        path: The folder; only this user can enter it.

    Raises:
        RunFolderError: when the folder cannot be made, others could enter it, or its path is too long.
    """

    def __init__(
        self,
        under: Path | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        program: str = "",
        on_disk: Path = ON_DISK,
        run: str = "",
    ) -> None:
        base = home(environ) if under is None else under
        _make_home(base)
        self.run = run or Entropy().name(32)
        self.path = base / self.run
        self._since_ms = epoch_ms()
        self._program = program
        self._closed = False
        self.socket("worker999-0123456789abcdef")  # says that the path is too long before anything is there
        sweep(base)
        half_made = base / f".{self.run}"
        try:
            half_made.mkdir(mode=0o700)
            (half_made / "logs").mkdir(mode=0o700)
            self._write(half_made, {})
            half_made.rename(self.path)  # nobody ever sees it without its launcher
        except OSError as error:
            shutil.rmtree(half_made, ignore_errors=True)
            message = f"the folder {self.path} must be makeable, got {error.strerror}"
            raise RunFolderError(message, hint=_ELSEWHERE) from error
        self._disk: RunDirectory | None = None
        if under is None:
            self._disk = self._elsewhere(on_disk / f"af-{os.getuid()}-logs")

    def _elsewhere(self, base: Path) -> RunDirectory | None:
        """The folder for logs where this one is memory; None where there is none, and they go here."""
        if not in_memory(self.path) or in_memory(base):
            return None
        try:
            return RunDirectory(base, run=self.run)
        except RunFolderError:
            return None

    def socket(self, name: str) -> Path:
        """Returns the path for a socket.

        Raises:
            RunFolderError: when it is longer than the system allows.
        """
        path = self.path / name
        if (length := len(os.fsencode(path))) > LONGEST:
            message = f"the path of a socket must have at most {LONGEST} bytes, got {length}: {path}"
            raise RunFolderError(
                message,
                hint="set XDG_RUNTIME_DIR or TMPDIR to a folder with a shorter name",
            )
        return path

    def log(self, name: str) -> Path:
        """Returns where a process prints."""
        folder = self.path if self._disk is None else self._disk.path
        return folder / "logs" / f"{name}.log"

    def write(self, processes: Mapping[str, Any], ended: Mapping[str, str] = _NOBODY) -> None:
        """Says which processes there are now: whoever reads the file sees the old one or this one whole.

        Args:
            processes: What is said of each, by name.
            ended: How those ended that are not started again, as the end of a sentence with their name.
        """
        self._write(self.path, processes, ended)

    def close(self, *, keep_logs: bool = False) -> Path | None:
        """Removes the folder; never raises, and does so once.

        Args:
            keep_logs: Whether the logs stay, for something has failed. They are removed after `KEPT_S`.

        Returns:
            Where the logs are, None when none were kept.
        """
        if self._closed:
            return None
        self._closed = True
        if self._disk is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            return self._disk.close(keep_logs=keep_logs)
        kept = keep_logs and any(log.stat().st_size for log in (self.path / "logs").glob("*.log"))
        if not kept:
            shutil.rmtree(self.path, ignore_errors=True)
            return None
        for entry in list(self.path.iterdir()):
            if entry.name != "logs":
                with suppress(OSError):
                    entry.unlink()
        return self.path / "logs"

    def __enter__(self) -> Self:
        """Returns itself; the block's end closes it, and its failure keeps the logs."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.close(keep_logs=kind is not None)

    def _write(self, folder: Path, processes: Mapping[str, Any], ended: Mapping[str, str] = _NOBODY) -> None:
        said = {
            "launcher": ProcessId.own().data(),
            "since_ms": self._since_ms,
            "program": self._program,
            "processes": dict(processes),
            "ended": dict(ended),
        }
        half_written = folder / f".{_FILE}"
        half_written.write_text(json.dumps(said, indent=1))
        half_written.replace(folder / _FILE)


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder in which this user's runs have theirs; it need not exist.

    Raises:
        RunFolderError: there is no folder for temporary files.
    """
    said = environ.get("XDG_RUNTIME_DIR")
    if said and Path(said).is_dir():
        parent = Path(said)
    else:
        try:
            parent = Path(tempfile.gettempdir())
        except OSError as error:  # also where all of them are full
            found = [path for path in _TEMPORARY if os.access(path, os.W_OK | os.X_OK)]
            if not found:
                message = f"there must be a folder for temporary files, got {error.strerror}"
                raise RunFolderError(message, hint=_ELSEWHERE) from error
            parent = found[0]
    return parent / f"af-{os.getuid()}"


def ended_processes(folder: Path) -> dict[str, str]:
    """Returns which processes of a run have ended for good, and how; none where nobody can tell."""
    try:
        said = json.loads((folder / _FILE).read_text())["ended"]
        return {str(name): str(why) for name, why in said.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def pids(folder: Path) -> dict[str, int]:
    """Returns the numbers of the processes of a run, as its launcher says; none where nobody can tell."""
    try:
        said = json.loads((folder / _FILE).read_text())["processes"]
        return {str(name): int(process["pid"]) for name, process in said.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def running(under: Path | None = None) -> list[RunningCluster]:
    """Returns the clusters of this user that run on this machine, the newest first."""
    found = [run for run in _runs(home() if under is None else under) if run.launcher.is_alive()]
    return sorted(found, key=lambda run: (-run.since_ms, run.run))


def sweep(under: Path | None = None, *, now_ms: Callable[[], int] = epoch_ms) -> list[str]:
    """Removes the folders that launchers have left which were killed.

    Logs that were kept go too when they are older than `KEPT_S`, and folders that nobody finished making.

    Returns:
        The names of the runs whose folders were removed.
    """
    base = home() if under is None else under
    known = {run.path: run for run in _runs(base)}
    removed = []
    for path in _folders(base):
        if path in known:
            dead = known[path].launcher.is_alive() is False
        else:
            limit_s = _HALF_MADE_S if path.name.startswith(".") else KEPT_S
            dead = _age_s(path, now_ms()) > limit_s
        if dead:
            run = path.name.removeprefix(".")
            shutil.rmtree(path, ignore_errors=True)
            removed.append(run)
    return removed


def _runs(base: Path) -> Iterator[RunningCluster]:
    for path in _folders(base):
        try:
            said = json.loads((path / _FILE).read_text())
            launcher = ProcessId.read(said["launcher"])
            if launcher is not None and not path.name.startswith("."):
                program = str(said.get("program", ""))
                since_ms, processes = int(said["since_ms"]), dict(said["processes"])
                yield RunningCluster(path.name, path, launcher, since_ms, processes, program)
        except (OSError, ValueError, TypeError, KeyError):  # its end is near, or it is no run
            continue


def _folders(base: Path) -> list[Path]:
    try:
        if not _is_own(base.lstat()):
            return []
        return sorted(path for path in base.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def _age_s(path: Path, now_ms: int) -> float:
    try:
        return now_ms / 1e3 - path.lstat().st_mtime
    except OSError:
        return 0.0


def _is_own(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _make_home(base: Path) -> None:
    try:
        base.mkdir(mode=0o700, exist_ok=True)
        found = base.lstat()
    except OSError as error:
        message = f"the folder {base} must be makeable, got {error.strerror}"
        raise RunFolderError(message, hint=_ELSEWHERE) from error
    if not _is_own(found):
        what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else stat.filemode(found.st_mode)
        message = f"{base} must be a folder of user {os.getuid()} alone, got {what} of user {found.st_uid}"
        raise RunFolderError(
            message,
            hint="remove it, or set XDG_RUNTIME_DIR to a folder of your own",
        )
