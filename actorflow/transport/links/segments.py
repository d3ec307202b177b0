"""Memory that two processes of one user see: one makes it, and the other one opens it by number.

It is a file without a name (memfd): when the last of the two has let go of it, or is killed, it is gone,
and nothing is ever left in a folder. It is sealed, so that nobody can make it shorter: what is mapped stays
there, and a peer that means harm cannot end a process by that (a file that is shorter than its mapping
costs its reader a SIGBUS). All its pages are found when it is made, so that a full machine is an error
there and then.

Linux only; elsewhere, and where the other process is not to be seen, there is none: see `shm`.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import sys

from actorflow.errors import WireError

_NAME = "actorflow-ring"
_LINK = f"/memfd:{_NAME} (deleted)"
MOST_BYTES = 1 << 30
"""Of what is opened."""


def make(size: int) -> tuple[memoryview, int]:
    """Returns new memory of so many bytes, and its descriptor, which the caller closes.

    Raises:
        OSError: there is none.
    """
    if sys.platform != "linux":
        message = f"memory without a name is to be had on linux, got {sys.platform}"
        raise OSError(message)
    fd = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        os.posix_fallocate(fd, 0, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return memoryview(mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)), fd
    except BaseException:
        os.close(fd)
        raise


def open_(pid: int, fd: int, size: int) -> memoryview:
    """Returns memory that another process of this user has made with `make`.

    Raises:
        OSError: it is not to be had.
        WireError: it is something else.
    """
    path = f"/proc/{pid}/fd/{fd}"
    # Opening a device or a pipe may do something, or wait: so first what it is. Whoever could change that
    # in between is of this user, who may do all that this process may.
    if (found := os.readlink(path)) != _LINK or not 0 < size <= MOST_BYTES:
        message = f"memory for two is '{_LINK}' of at most {MOST_BYTES} bytes, got {found!r:.60} of {size}"
        raise WireError(message)
    opened = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        about, seals = os.fstat(opened), fcntl.fcntl(opened, fcntl.F_GET_SEALS)
        if about.st_uid != os.geteuid() or not stat.S_ISREG(about.st_mode) or about.st_size != size:
            message = f"it is a file of this user, of {size} bytes, got {about.st_size} of {about.st_uid}"
            raise WireError(message)
        page = os.fstatvfs(opened).f_bsize  # in huge pages a hole that nobody can fill is a SIGBUS as well
        if not seals & fcntl.F_SEAL_SHRINK or page != mmap.PAGESIZE:
            pages = f"lies in pages of {mmap.PAGESIZE} bytes"
            message = f"it cannot be made shorter, and {pages}, got seals {seals:#x} and pages of {page}"
            raise WireError(message)
        return memoryview(mmap.mmap(opened, size, flags=mmap.MAP_SHARED))
    finally:
        os.close(opened)
