"""Who is at the other end of a connection that libzmq holds: its news tell our end only."""

from __future__ import annotations

import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def peer_address(descriptor: int) -> str:
    """Returns where a connection comes from: a host without its port, or a process at a socket file.

    Each attempt has another port, which would make each a case of its own. Returns "" when it is not known,
    as of a connection that has ended already.
    """
    try:
        with _open(os.dup(descriptor)) as ours:
            if ours.family != socket.AF_UNIX:
                return str(ours.getpeername()[0])
            told = ours.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, _, _ = _CREDENTIALS.unpack(told)
            return f"process {pid}"
    except OSError:
        return ""


def _open(copy: int) -> socket.socket:
    try:
        return socket.socket(fileno=copy)
    except OSError:  # it has become a file since
        os.close(copy)
        raise
