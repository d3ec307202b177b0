"""Why a peer is lost, in words."""

from __future__ import annotations

from actorflow.errors import PeerLost, PeerRefused, WireError
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.datagrams import VERSION, Hello, SessionEnd


def _settings(name: str) -> str:
    return f"Settings({name}=...) of the links"


def _links(name: str) -> str:
    return f"--links {name}=..., or {_settings(name)}"


def silent_error(peer: str, seconds: float, limit_s: float) -> PeerLost:
    """Nothing was heard of it."""
    what = f"'{peer}' has been silent for {seconds:.3g} s, limit {limit_s:g} s"
    return PeerLost(what, hint=f"--silence-s, or {_settings('silence_s')}, if it was only busy")


def busy_error(peer: str, seconds: float, limit_s: float) -> PeerLost:
    """Its process is there, and nothing was heard of it."""
    what = (
        f"'{peer}' has been busy for {seconds:.3g} s, limit {limit_s:g} s: it is connected and says nothing"
    )
    return PeerLost(what, hint=f"{_links('busy_s')}, if its work holds its loop up for longer")


def broken_error(peer: str, limit_s: float) -> PeerLost:
    """There is no connection to it any more."""
    what = f"'{peer}' is gone: its connection broke and has not come back for {limit_s:g} s"
    return PeerLost(what, hint=f"{_links('gone_s')}, if connections take longer to return")


def restarted_error(peer: str, before: SessionEnd, after: SessionEnd) -> PeerLost:
    """A later end of it speaks."""
    if after.incarnation > before.incarnation:
        lives = f"incarnation {after.incarnation} after {before.incarnation}"
        return PeerLost(f"'{peer}' has started again: {lives}")
    return PeerLost(f"'{peer}' has given this session up, and begins another")


def given_up_error(peer: str) -> PeerLost:
    """It says that the session is over."""
    return PeerLost(f"'{peer}' has given this session up")


def goodbye_error(peer: str) -> PeerLost:
    """It has closed its end."""
    return PeerLost(f"'{peer}' has said goodbye")


def fenced_error(peer: str, mine: SessionEnd, known: SessionEnd) -> PeerLost:
    """It knows better who this process is."""
    what = f"'{peer}' knows a later life of this process than {mine}, got {known}"
    hint = "ACTORFLOW_INCARNATION, of a process without a supervisor, above the one that it had"
    return PeerLost(what, hint=hint)


def malformed_error(peer: str, cause: WireError) -> PeerLost:
    """It said what is no message, which is the cause."""
    lost = PeerLost(f"'{peer}' sent what is no message, so its session is over")
    lost.__cause__ = cause
    return lost


def overrun_error(peer: str, most: Window) -> PeerLost:
    """It does not acknowledge what needs no credit."""
    waits = f"more than {most.messages} messages or {most.bytes} bytes wait for it"
    return PeerLost(f"'{peer}' does not take what it is told: {waits}")


def undeliverable_error(peer: str, cause: BaseException) -> PeerLost:
    """Whoever takes what it sends has failed, which is the cause."""
    lost = PeerLost(f"what '{peer}' sent could not be delivered")
    lost.__cause__ = cause
    return lost


def refused_error(peer: str, hello: Hello, program: str) -> PeerRefused:
    """It runs something else: with another seed, where both programs are told as `HASH/SEED`."""
    theirs_seed, seed = _seed(hello.program), _seed(program)
    if hello.version == VERSION and theirs_seed and seed and theirs_seed != seed:
        what = f"all processes must be given one seed, got {theirs_seed} at '{peer}' and {seed} here"
        return PeerRefused(what, hint="--seed is the same for every process of a cluster, the chief's too")
    theirs = f"program {hello.program!r} (protocol {hello.version})"
    mine = f"{program!r} (protocol {VERSION})"
    what = f"all processes must run one program, got {theirs} at '{peer}' and {mine} here"
    return PeerRefused(what, hint="start every process from the same files and the same actorflow")


def _seed(program: str) -> str:
    return program.rpartition("/")[2] if "/" in program else ""
