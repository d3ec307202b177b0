"""The roster of a cluster: a process must be one that the chief counts, and count as the chief does.

Pure. The chief has no way to a process that it does not count, until that dials it: then it makes one, so
that the process is told at once what is wrong with it. Such ways are few, so that strangers fill no memory.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from actorflow.cluster.process.messages import AnnounceAddress, ProcessCounts
from actorflow.errors import Misplaced, pluralise

MOST_STRANGERS = 16
"""So many processes without a place are told so by a chief; the next ones hear nothing."""

_MOST_DIGITS = 6
_HINT = "--ps and --workers are the same for every process of a cluster, the chief's too"


def stranger(name: str, known: Container[str], strangers: int) -> bool:
    """Whether a chief makes a way to a process of a name that it does not count, to tell it so.

    Args:
        name: As the process says.
        known: Those to which there is a way.
        strangers: How many of these have no place.
    """
    job = name.rstrip("0123456789")
    number = name[len(job) :]
    named = job in ("ps", "worker") and 0 < len(number) <= _MOST_DIGITS
    return named and name not in known and strangers < MOST_STRANGERS


def misplaced_error(
    here: AnnounceAddress, chief: ProcessCounts | None, places: Iterable[str]
) -> Misplaced | None:
    """Returns why a process has no place in a cluster; None when it has.

    Args:
        here: What it says of itself.
        chief: How the chief counts; None when nobody has told it.
        places: The names of all other processes, by the chief's count.
    """
    told = here.counts
    if told is not None and chief is not None:
        for job, mine, by, theirs, theirs_by in (
            ("ps", chief.ps, chief.ps_by, told.ps, told.ps_by),
            ("worker", chief.workers, chief.workers_by, told.workers, told.workers_by),
        ):
            if mine != theirs:
                plural = job if job == "ps" else f"{job}s"
                what = (
                    f"all processes of a cluster count {plural} alike, got {theirs} at {here.name} "
                    f"({theirs_by}) and {mine} at the chief ({by})"
                )
                return Misplaced(f"{what}{_beyond(here.name, places)}", hint=_HINT)
    beyond = _beyond(here.name, places)
    return Misplaced(f"a process has a place in its cluster{beyond}", hint=_HINT) if beyond else None


def _beyond(name: str, places: Iterable[str]) -> str:
    """Says that there is no such process, and which there are; "" when there is."""
    there = tuple(places)
    if name in there:
        return ""
    job = name.rstrip("0123456789")
    count = sum(place.rstrip("0123456789") == job for place in there)
    verb = "is" if count == 1 else "are"
    jobs = f"{count} ps" if job == "ps" else pluralise(count, job)
    numbers = "" if count == 0 else ", number 0" if count == 1 else f", numbers 0 to {count - 1}"
    return f": there {verb} {jobs}{numbers}, got {name}"
