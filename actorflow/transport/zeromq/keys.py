"""The keys that this process holds: made here, read from a file, or handed down by whoever started it."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import tempfile
from pathlib import Path

import zmq

from actorflow.errors import ActorflowError, ConfigError, DiskFull
from actorflow.runtime.disk import is_full
from actorflow.transport.rules.security import KeyPair, KeyRing, parse

log = logging.getLogger("actorflow.transport")

_MOST_BYTES = 1 << 16
_PRIVATE = 0o600


class Keyring:
    """A `security.KeyRing` that follows its file, if it has one.

    Attributes:
        path: The file, or None.
    """

    def __init__(self, ring: KeyRing, path: Path | None = None, seen: tuple[int, ...] = ()) -> None:
        self.path = path
        self._ring = ring
        self._seen = seen  # what the file was when it was read last
        self._told: tuple[int, ...] = ()  # what it was when it was told that it cannot be read

    @classmethod
    def new(cls) -> Keyring:
        """Returns a ring with one fresh pair."""
        return cls(KeyRing((_pair(),)))

    @classmethod
    def load(cls, path: str | Path) -> Keyring:
        """Returns the ring of a file, which is read again whenever it has changed.

        Raises:
            ConfigError: there is no such file, others may read it, or it holds no keys.
        """
        path = Path(path)
        text, seen = _read(path)
        return cls(parse(text, str(path)), path, seen)

    @classmethod
    def of(cls, descriptor: int) -> Keyring:
        """Returns the ring that the process which started this one handed down, and closes the descriptor.

        Raises:
            ConfigError: it holds no keys.
        """
        try:
            text = _all(descriptor).decode("ascii", errors="replace")
        except OSError as error:
            message = f"keys come by an open descriptor, got {descriptor}: {error.strerror}"
            raise ConfigError(message) from error
        finally:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        return cls(parse(text, f"descriptor {descriptor}"))

    @property
    def ring(self) -> KeyRing:
        """The keys now: those of the file, as long as that can be read; else the last ones."""
        if self.path is not None:
            with contextlib.suppress(OSError):
                seen = _status(os.stat(self.path))
                if seen != self._seen:
                    self._reread(self.path, seen)
        return self._ring

    def _reread(self, path: Path, seen: tuple[int, ...]) -> None:
        try:
            text, found = _read(path)
            self._ring = parse(text, str(path))
        except (ActorflowError, OSError) as error:  # which may pass, so it is tried again, and told of once
            if seen != self._told:
                self._told = seen
                log.warning("the keys stay as they were, since %s cannot be used: %s", path, error)
        else:
            self._seen, self._told = found, ()
            log.info("keys were read again from %s: %d let in", path, len(self._ring.pairs))

    def hand_down(self) -> int:
        """Returns a descriptor for `of` in child processes: name it in `pass_fds`, and close it here."""
        descriptor = os.memfd_create("actorflow-keys", os.MFD_CLOEXEC)
        os.write(descriptor, self.ring.text().encode())
        return descriptor

    def save(self, path: str | Path) -> None:
        """Makes a file of the ring, which nobody else can read.

        Raises:
            ConfigError: there is one of that name, or it cannot be made.
            DiskFull: there is no room for it; nothing is left of it then.
        """
        _write(Path(path), self.ring.text(), fresh=True)

    def rotate(self) -> None:
        """Puts a fresh pair first, which is shown from now on; those that were there are still let in."""
        self._change(self.ring.rotate(_pair()))

    def drop(self) -> None:
        """Lets only the current pair in from now on."""
        self._change(self.ring.drop_old())

    def _change(self, ring: KeyRing) -> None:
        if self.path is not None:
            _write(self.path, ring.text(), fresh=False)
            self._seen = _status(os.stat(self.path))
        self._ring = ring

    def __repr__(self) -> str:
        return f"<Keyring of {len(self._ring.pairs)} from {self.path or 'no file'}>"


def _pair() -> KeyPair:
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), secret.decode())


def _write(path: Path, text: str, *, fresh: bool) -> None:
    """Makes a private file of all of the text, or leaves what was there; raises ConfigError, DiskFull."""
    beside: str | None = None
    try:
        descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # for its maker alone
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            # ORDER: on the disk first, then under its name: whoever reads meanwhile finds the old or the new,
            # and a machine that loses power keeps no half.
            os.fsync(descriptor)
        if fresh:
            _name(beside, path)
        else:
            os.replace(beside, path)
    except OSError as error:
        raise _unwritten(path, error) from error
    finally:
        if beside is not None:
            with contextlib.suppress(OSError):
                os.unlink(beside)  # gone already, where it was renamed


def _name(beside: str, path: Path) -> None:
    """Gives a file its name, which nobody else has."""
    try:
        os.link(beside, path)
    except FileExistsError:
        raise
    except OSError:  # a file system where a file has one name: keep the name first, then take its place
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _PRIVATE))
        os.replace(beside, path)


def _unwritten(path: Path, error: OSError) -> ActorflowError:
    if is_full(error):
        what = f"keys must have room where they are written, got {path}: {error.strerror}"
        return DiskFull(what, hint="make room there, or name another folder")
    if isinstance(error, FileExistsError):
        what = f"keys go to a file that is not there yet, got {path}: {error.strerror}"
        return ConfigError(what, hint="`actorflow keys rotate FILE` adds keys to one")
    return ConfigError(f"keys go to a folder that can be written, got {path}: {error.strerror}")


def _read(path: Path) -> tuple[str, tuple[int, ...]]:
    """Returns what a private file holds, and what it looks like; raises ConfigError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        message = f"keys come from a file, got {path}: {error.strerror}"
        hint = f"`actorflow keys new {path}` makes one" if isinstance(error, FileNotFoundError) else None
        raise ConfigError(message, hint=hint) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            message = f"keys come from a plain file of at most {_MOST_BYTES} bytes, got {path}"
            raise ConfigError(message)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            mode = f"mode {stat.S_IMODE(found.st_mode):04o}, user {found.st_uid}"
            message = f"a file of keys is ours, and nobody else can read it, got {path} with {mode}"
            raise ConfigError(message, hint=f"chmod 600 {path}; if others have read it, make new keys")
        return _all(descriptor).decode("ascii", errors="replace"), _status(found)
    finally:
        os.close(descriptor)


def _all(descriptor: int) -> bytes:
    """Reads up to the end, or the most; from the start where that can be, since children share the place."""
    with contextlib.suppress(OSError):
        os.lseek(descriptor, 0, os.SEEK_CUR)
        return os.pread(descriptor, _MOST_BYTES, 0)
    found = b""
    while len(found) < _MOST_BYTES and (more := os.read(descriptor, _MOST_BYTES)):
        found += more
    return found


def _status(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode
