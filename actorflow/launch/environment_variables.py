"""Finds out from environment variables which process of a cluster this one is.

The first source that is there wins: actorflow's own variables, torchrun, TF_CONFIG, Slurm, Open MPI, PMI,
an indexed Job of Kubernetes. In those that only number the processes, rank 0 is the chief, then come
`ACTORFLOW_PS` (1) parameter servers, and the rest are workers. `ACTORFLOW_COORDINATOR` overrides where the
chief is to be found. A variable that is empty counts as one that is not set.

Explicit arguments win over all: lay them over the variables, `detect({**os.environ, "ACTORFLOW_PS": "2"})`.

Pure: reads the mapping it is given and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from actorflow.errors import ConfigError, show_value
from actorflow.launch.nodelist import hosts
from actorflow.launch.task import JOBS, OWN, Task, address, seat

_NO_JOBS = {"bash", "interactive"}  # names of Slurm jobs in which somebody sits at a prompt
_NO_STEPS = 0xFFFFFFF0  # from here on they are numbers of batch scripts, prompts and the like
_FIRST_PORT, _PORTS = 15000, 10000  # below what systems give away by themselves, which begins at 32768

_WHO = (
    "ACTORFLOW_JOB",
    "ACTORFLOW_TASK_INDEX",
    "ACTORFLOW_COORDINATOR",
    "ACTORFLOW_PS",
    "ACTORFLOW_WORKERS",
    "ACTORFLOW_BIND",
    "ACTORFLOW_INCARNATION",
    "ACTORFLOW_LOCAL_INDEX",
    "RANK",
    "WORLD_SIZE",
    "TF_CONFIG",
)
_NO_FLAGS: Mapping[str, str] = MappingProxyType({})
_VARIABLE = re.compile(r"\bACTORFLOW_[A-Z_]+\b")


def detect(environ: Mapping[str, str], flags: Mapping[str, str] = _NO_FLAGS) -> Task | None:
    """Returns the task that the variables give this process; None when they give none.

    Args:
        environ: The variables, and over them what flags say.
        flags: By the name of a variable, what an error calls it where a flag said so, or could have.

    Raises:
        ConfigError: for variables that are half set, contradict each other or cannot be read: names the
            variable, its value, and what was expected.
    """
    try:
        return _detect(environ)
    except ConfigError as error:
        raise ConfigError(
            _name_flags(error.what, flags),
            hint=None if error.hint is None else _name_flags(error.hint, flags),
        ) from None


def unread(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns which variables that are set say which process this is: a launcher reads none of them.

    >>> from actorflow.launch.environment_variables import unread
    >>> unread({"RANK": "0", "ACTORFLOW_PS": "2", "ACTORFLOW_JOB": " "})
    ('ACTORFLOW_PS', 'RANK')
    """
    return tuple(name for name in _WHO if environ.get(name, "").strip())


def _name_flags(text: str, flags: Mapping[str, str]) -> str:
    """Names flags in the place of the variables for which they stand."""
    called = _VARIABLE.sub(lambda found: flags.get(found[0], found[0]), text)
    return called.replace("unset --", "leave out --")


def _detect(environ: Mapping[str, str]) -> Task | None:
    given = {name: value.strip() for name, value in environ.items() if value.strip()}
    for source in _SOURCES:
        if (task := source(given)) is not None:
            return task
    for half, missing in (
        ("ACTORFLOW_COORDINATOR", "ACTORFLOW_JOB"),
        ("ACTORFLOW_INCARNATION", "ACTORFLOW_JOB"),
        ("WORLD_SIZE", "RANK"),
    ):
        if half in given:
            raise _half_set_error(half, given, missing)
    return None


# ------------------------------------------------------------------------------- sources


def _own(given: Mapping[str, str]) -> Task | None:
    if "ACTORFLOW_JOB" not in given and "ACTORFLOW_TASK_INDEX" not in given:
        return None
    present = "ACTORFLOW_JOB" if "ACTORFLOW_JOB" in given else "ACTORFLOW_TASK_INDEX"
    for name in ("ACTORFLOW_JOB", "ACTORFLOW_COORDINATOR", "ACTORFLOW_PS", "ACTORFLOW_WORKERS"):
        if name not in given:
            raise _half_set_error(present, given, name)
    job = given["ACTORFLOW_JOB"]
    if job not in JOBS:
        message = f"ACTORFLOW_JOB must be one of {', '.join(JOBS)}, got {job!r}"
        raise ConfigError(message)
    if "ACTORFLOW_TASK_INDEX" not in given and job != "chief":
        raise _half_set_error("ACTORFLOW_JOB", given, "ACTORFLOW_TASK_INDEX")
    ps, workers = _number(given, "ACTORFLOW_PS", 1), _number(given, "ACTORFLOW_WORKERS", 1)
    index = _number(given, "ACTORFLOW_TASK_INDEX", 0, default=0)
    most = {"chief": 1, "ps": ps, "worker": workers}[job]
    if index >= most:
        message = f"ACTORFLOW_TASK_INDEX must be below {most} for {job}, got {index}"
        raise ConfigError(message)
    bind = given.get("ACTORFLOW_BIND")
    return Task(
        job,
        index,
        ps,
        workers,
        address(given["ACTORFLOW_COORDINATOR"], "ACTORFLOW_COORDINATOR"),
        OWN,
        incarnation=_number(given, "ACTORFLOW_INCARNATION", 1) if "ACTORFLOW_INCARNATION" in given else None,
        bind=None if bind is None else address(bind, "ACTORFLOW_BIND", any_port=True),
        local=_number(given, "ACTORFLOW_LOCAL_INDEX", 0) if "ACTORFLOW_LOCAL_INDEX" in given else None,
    )


def _torchrun(given: Mapping[str, str]) -> Task | None:
    if "RANK" not in given:
        return None
    for part, whole in (("LOCAL_RANK", "LOCAL_WORLD_SIZE"), ("GROUP_RANK", "GROUP_WORLD_SIZE")):
        if part in given and whole in given:
            _rank(given, part, whole)
    return _by_rank(
        given,
        "torchrun",
        *_rank(given, "RANK", "WORLD_SIZE"),
        lambda: _beside_master(given, "RANK"),
        local="LOCAL_RANK",
        restarts="TORCHELASTIC_RESTART_COUNT",
    )


def _tf_config(given: Mapping[str, str]) -> Task | None:
    if "TF_CONFIG" not in given:
        return None
    said = _json(given["TF_CONFIG"])
    listed, task = said.get("cluster"), said.get("task")
    if not isinstance(listed, dict) or not isinstance(task, dict):
        if not listed and not task:
            return None  # {} is what it is set to where there is no cluster
        raise _tf("have a cluster and a task", said)
    if "master" in listed and "chief" in listed:
        raise _tf("have a chief or a master, not both", sorted(listed))
    chief = "master" if "master" in listed else "chief"
    for job in (chief, "ps", "worker"):
        if not _is_list(listed.get(job)):
            message = f'list the addresses of {job} in "cluster"'
            raise _tf(message, listed.get(job))
    if len(listed[chief]) != 1:
        message = f"have one {chief}"
        raise _tf(message, listed[chief])
    kind, index = task.get("type"), _plain(task.get("index", 0))
    if kind not in (chief, "ps", "worker"):
        message = f"have a task of type {chief}, ps or worker"
        raise _tf(message, kind)
    if index is None or index >= len(listed[kind]):
        message = f"have a task index below {len(listed[kind])} for {kind}"
        raise _tf(message, task.get("index"))
    job = "chief" if kind == chief else kind
    own = address(listed[kind][index], "TF_CONFIG")
    there = _coordinator(given) or address(listed[chief][0], "TF_CONFIG")
    return Task(job, index, len(listed["ps"]), len(listed["worker"]), there, "TF_CONFIG", bind=own)


def _slurm(given: Mapping[str, str]) -> Task | None:
    if "SLURM_PROCID" not in given or given.get("SLURM_JOB_NAME") in _NO_JOBS:
        return None
    if "SLURM_STEP_ID" not in given or _number(given, "SLURM_STEP_ID", 0) >= _NO_STEPS:
        return None  # a batch script, or a prompt: srun has not started it
    return _by_rank(
        given,
        "Slurm",
        *_rank(given, "SLURM_PROCID", "SLURM_NTASKS"),
        lambda: _first_host(given),
        local="SLURM_LOCALID",
        restarts="SLURM_RESTART_COUNT",
    )


def _open_mpi(given: Mapping[str, str]) -> Task | None:
    if "OMPI_COMM_WORLD_RANK" not in given:
        return None
    rank, size = _rank(given, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    return _by_rank(
        given,
        "Open MPI",
        rank,
        size,
        lambda: _beside_master(given, "OMPI_COMM_WORLD_RANK"),
        local="OMPI_COMM_WORLD_LOCAL_RANK",
    )


def _pmi(given: Mapping[str, str]) -> Task | None:
    if "PMI_RANK" not in given:
        return None
    rank, size = _rank(given, "PMI_RANK", "PMI_SIZE")
    return _by_rank(
        given, "PMI", rank, size, lambda: _beside_master(given, "PMI_RANK"), local="MPI_LOCALRANKID"
    )


def _kubernetes(given: Mapping[str, str]) -> Task | None:
    if "JOB_COMPLETION_INDEX" not in given:
        return None
    index = _number(given, "JOB_COMPLETION_INDEX", 0)
    for name in ("ACTORFLOW_PS", "ACTORFLOW_WORKERS"):  # nothing else says how many there are
        if name not in given:
            raise _half_set_error("JOB_COMPLETION_INDEX", given, name)
    size = 1 + _number(given, "ACTORFLOW_PS", 1) + _number(given, "ACTORFLOW_WORKERS", 1)
    if index >= size:
        message = (
            f"JOB_COMPLETION_INDEX must be below {size}, a chief and ACTORFLOW_PS and ACTORFLOW_WORKERS "
            f"processes, got {index}"
        )
        raise ConfigError(message)
    return _by_rank(given, "Kubernetes", index, size, lambda: _beside_master(given, "JOB_COMPLETION_INDEX"))


_SOURCES: tuple[Callable[[Mapping[str, str]], Task | None], ...] = (
    _own,
    _torchrun,
    _tf_config,
    _slurm,
    _open_mpi,
    _pmi,
    _kubernetes,
)


# ---------------------------------------------------------------------- numbered processes


def _by_rank(
    given: Mapping[str, str],
    source: str,
    rank: int,
    size: int,
    there: Callable[[], str],
    *,
    local: str = "",
    restarts: str = "",
) -> Task:
    """The task of a process that has only a number; the last two are names of variables."""
    ps = _number(given, "ACTORFLOW_PS", 1, default=1)
    workers = size - 1 - ps
    if workers < 1:
        message = (
            f"{source} must start at least {ps + 2} processes, a chief, {ps} ps and a worker, got {size}"
        )
        raise ConfigError(
            message,
            hint="start more, or set ACTORFLOW_PS",
        )
    if "ACTORFLOW_WORKERS" in given and (said := _number(given, "ACTORFLOW_WORKERS", 1)) != workers:
        message = (
            f"ACTORFLOW_WORKERS must be {workers}, for {source} has started {size} processes, of which one "
            f"is the chief and {ps} are ps, got {said}"
        )
        raise ConfigError(message)
    job, index = seat(rank, ps)
    return Task(
        job,
        index,
        ps,
        workers,
        _coordinator(given) or there(),
        source,
        local=_number(given, local, 0) if local in given else None,
        restarts=_number(given, restarts, 0) if restarts in given else 0,
    )


def _rank(given: Mapping[str, str], rank: str, size: str) -> tuple[int, int]:
    if size not in given:
        raise _half_set_error(rank, given, size)
    number, count = _number(given, rank, 0), _number(given, size, 1)
    if number >= count:
        message = f"{rank} must be below {size}, {count}, got {number}"
        raise ConfigError(message)
    return number, count


def _coordinator(given: Mapping[str, str]) -> str | None:
    text = given.get("ACTORFLOW_COORDINATOR")
    return None if text is None else address(text, "ACTORFLOW_COORDINATOR")


def _beside_master(given: Mapping[str, str], present: str) -> str:
    """The port after torch's, whose store may listen at its own."""
    if "MASTER_ADDR" not in given and "MASTER_PORT" not in given and present != "RANK":
        raise _half_set_error(present, given, "ACTORFLOW_COORDINATOR")
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if name not in given:
            raise _half_set_error(present, given, name)
    port = _number(given, "MASTER_PORT", 1)
    if port > 65534:
        message = f"MASTER_PORT must be below 65535, for the chief takes the one after it, got {port}"
        raise ConfigError(message)
    return address(f"{_bracket(given['MASTER_ADDR'])}:{port + 1}", "MASTER_ADDR")


def _first_host(given: Mapping[str, str]) -> str:
    """The first host of the step; the port comes from the job, so that all know it."""
    lists = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    name = next((name for name in lists if name in given), None)
    if name is None:
        raise _half_set_error("SLURM_PROCID", given, "SLURM_JOB_NODELIST")
    job = next((name for name in ("SLURM_JOB_ID", "SLURM_JOBID") if name in given), None)
    if job is None:
        raise _half_set_error("SLURM_PROCID", given, "SLURM_JOB_ID")
    step = _number(given, "SLURM_STEP_ID", 0)  # steps of a job run side by side
    port = _FIRST_PORT + (_number(given, job, 0) + 1009 * step) % _PORTS
    try:
        first = hosts(given[name])[0]
    except ConfigError as error:
        message = f"{name} must be a list of hosts: {error.what}"
        raise ConfigError(message) from None
    return address(f"{_bracket(first)}:{port}", name)


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


# ----------------------------------------------------------------------------- reading


def _number(given: Mapping[str, str], name: str, least: int, *, default: int | None = None) -> int:
    if name not in given and default is not None:
        return default
    text = given[name]
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least):
        message = f"{name} must be an integer of at least {least}, got {text!r}"
        raise ConfigError(message)
    return int(text)


def _half_set_error(present: str, given: Mapping[str, str], missing: str) -> ConfigError:
    return ConfigError(
        f"{missing} must be set where {present} is, which is {show_value(given[present])}",
        hint=f"set {missing}, or unset {present}",
    )


def _json(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"TF_CONFIG must be JSON: {error}, got {show_value(text)}"
        raise ConfigError(message) from None
    if not isinstance(said, dict):
        raise _tf("be an object", said)
    return said


def _is_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(at, str) for at in value)


def _plain(value: object) -> int | None:
    """An index, which some write as a string; None when it is none."""
    text = str(value) if type(value) in (int, str) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def _tf(must: str, got: object) -> ConfigError:
    hint = (
        "run an evaluator as a program of its own, on what the run has saved" if got == "evaluator" else None
    )
    return ConfigError(f"TF_CONFIG must {must}, got {show_value(got)}", hint=hint)
