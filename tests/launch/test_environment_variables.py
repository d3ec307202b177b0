import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import ConfigError
from actorflow.launch.environment_variables import detect
from actorflow.launch.task import Task, seat

OWN = {
    "ACTORFLOW_JOB": "worker",
    "ACTORFLOW_TASK_INDEX": "1",
    "ACTORFLOW_COORDINATOR": "10.0.0.1:4000",
    "ACTORFLOW_PS": "2",
    "ACTORFLOW_WORKERS": "3",
}
TORCHRUN = {
    "RANK": "4",
    "WORLD_SIZE": "6",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "2",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
LISTED = {"chief": ["c:1"], "ps": ["p:1", "p:2"], "worker": ["w:1", "w:2", "w:3"]}
SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_JOB_ID": "1234567",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_NODELIST": "gpu[03-05]",
    "SLURM_JOB_NAME": "train",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "ACTORFLOW_COORDINATOR": "tcp://a:1",
}
PMI = {"PMI_RANK": "2", "PMI_SIZE": "3", "MPI_LOCALRANKID": "0", "ACTORFLOW_COORDINATOR": "tcp://a:1"}
KUBERNETES = {
    "JOB_COMPLETION_INDEX": "0",
    "ACTORFLOW_PS": "1",
    "ACTORFLOW_WORKERS": "2",
    "ACTORFLOW_COORDINATOR": "trainer-0.trainer:4000",
}


def tf_config(kind="worker", index=2, cluster=LISTED):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


TASKS = [
    (OWN, Task("worker", 1, 2, 3, "tcp://10.0.0.1:4000")),
    (OWN | {"ACTORFLOW_INCARNATION": "17"}, Task("worker", 1, 2, 3, "tcp://10.0.0.1:4000", incarnation=17)),
    (
        {k: v for k, v in OWN.items() if k != "ACTORFLOW_TASK_INDEX"}
        | {"ACTORFLOW_JOB": "chief", "ACTORFLOW_COORDINATOR": "ipc:///run/x"},
        Task("chief", 0, 2, 3, "ipc:///run/x"),
    ),
    (TORCHRUN, Task("worker", 2, 1, 4, "tcp://node0:29501", "torchrun", local=0, restarts=2)),
    (TORCHRUN | {"ACTORFLOW_PS": "4"}, Task("ps", 3, 4, 1, "tcp://node0:29501", "torchrun", local=0, restarts=2)),
    (TORCHRUN | {"MASTER_ADDR": "::1", "RANK": "0"}, Task("chief", 0, 1, 4, "tcp://[::1]:29501", "torchrun", local=0, restarts=2)),
    (tf_config(), Task("worker", 2, 2, 3, "tcp://c:1", "TF_CONFIG", bind="tcp://w:3")),
    (tf_config("ps", "1"), Task("ps", 1, 2, 3, "tcp://c:1", "TF_CONFIG", bind="tcp://p:2")),
    (
        tf_config("master", 0, {"master": ["m:1"], "ps": ["p:1"], "worker": ["w:1"], "evaluator": ["e:1"]}),
        Task("chief", 0, 1, 1, "tcp://m:1", "TF_CONFIG", bind="tcp://m:1"),
    ),
    (SLURM, Task("worker", 1, 1, 2, "tcp://gpu03:19567", "Slurm", local=1)),
    (SLURM | {"SLURM_STEP_ID": "2", "SLURM_RESTART_COUNT": "1"}, Task("worker", 1, 1, 2, "tcp://gpu03:21585", "Slurm", local=1, restarts=1)),
    (SLURM | {"SLURM_STEP_NODELIST": "gpu04"}, Task("worker", 1, 1, 2, "tcp://gpu04:19567", "Slurm", local=1)),
    (OPEN_MPI, Task("ps", 0, 1, 1, "tcp://a:1", "Open MPI", local=1)),
    (PMI, Task("worker", 0, 1, 1, "tcp://a:1", "PMI", local=0)),
    (KUBERNETES, Task("chief", 0, 1, 2, "tcp://trainer-0.trainer:4000", "Kubernetes")),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "task"), TASKS)
def test_the_task_that_variables_give(environ, task):
    assert detect({"PATH": "/bin", **environ}) == task


@pytest.mark.parametrize("first", range(6))
def test_the_first_source_that_is_there_wins(first):
    sources = [OWN, TORCHRUN, tf_config(), SLURM, OPEN_MPI, PMI]
    environ = {}
    for source in sources[first:]:
        environ |= {k: v for k, v in source.items() if k not in environ}

    names = ["own variables", "torchrun", "TF_CONFIG", "Slurm", "Open MPI", "PMI"]
    environ["ACTORFLOW_WORKERS"] = "3"  # of the own variables; the sizes of the others differ
    if first:
        del environ["ACTORFLOW_WORKERS"]
    task = detect(environ)
    assert task is not None and task.source == names[first]


@pytest.mark.parametrize(
    "environ", [{}, {"PATH": "/bin"}, {"ACTORFLOW_PS": "2"}, {"TF_CONFIG": "{}"}, {"RANK": " "}]
)
def test_where_nothing_is_said_there_is_no_task(environ):
    assert detect(environ) is None


@pytest.mark.parametrize("name", ["bash", "interactive"])
def test_a_prompt_within_a_slurm_job_is_no_job(name):
    assert detect(SLURM | {"SLURM_JOB_NAME": name}) is None


@pytest.mark.parametrize("step", [None, "4294967290", "4294967291"])
def test_a_batch_script_or_a_prompt_that_srun_has_not_started_is_no_step(step):
    environ = {k: v for k, v in SLURM.items() if k != "SLURM_STEP_ID"}

    assert detect(environ if step is None else environ | {"SLURM_STEP_ID": step}) is None


REQUIRED = [
    *((OWN, name) for name in OWN if name not in ("ACTORFLOW_TASK_INDEX", "ACTORFLOW_JOB")),
    (OWN, "ACTORFLOW_JOB"),
    (OWN, "ACTORFLOW_TASK_INDEX"),
    (TORCHRUN, "RANK"),
    (TORCHRUN, "WORLD_SIZE"),
    (TORCHRUN, "MASTER_ADDR"),
    (TORCHRUN, "MASTER_PORT"),
    (SLURM, "SLURM_NTASKS"),
    (SLURM, "SLURM_JOB_NODELIST"),
    (SLURM, "SLURM_JOB_ID"),
    (OPEN_MPI, "OMPI_COMM_WORLD_SIZE"),
    (OPEN_MPI, "ACTORFLOW_COORDINATOR"),
    (PMI, "PMI_SIZE"),
    (KUBERNETES, "ACTORFLOW_WORKERS"),
    (KUBERNETES, "ACTORFLOW_PS"),
    (KUBERNETES, "ACTORFLOW_COORDINATOR"),
]


@pytest.mark.parametrize(("environ", "missing"), REQUIRED)
def test_a_source_that_is_half_set_names_what_is_missing(environ, missing):
    with pytest.raises(ConfigError, match=rf"{missing} must be set where \w+ is, which is '"):
        detect({k: v for k, v in environ.items() if k != missing})


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (OWN | {"ACTORFLOW_JOB": "boss"}, "ACTORFLOW_JOB must be one of chief, ps, worker, got 'boss'"),
        (OWN | {"ACTORFLOW_TASK_INDEX": "3"}, "ACTORFLOW_TASK_INDEX must be below 3 for worker, got 3"),
        (OWN | {"ACTORFLOW_JOB": "chief"}, "ACTORFLOW_TASK_INDEX must be below 1 for chief, got 1"),
        (OWN | {"ACTORFLOW_TASK_INDEX": "-1"}, "ACTORFLOW_TASK_INDEX must be an integer of at least 0, got '-1'"),
        (OWN | {"ACTORFLOW_PS": "0"}, "ACTORFLOW_PS must be an integer of at least 1, got '0'"),
        (OWN | {"ACTORFLOW_WORKERS": "٣"}, "ACTORFLOW_WORKERS must be an integer"),
        (OWN | {"ACTORFLOW_INCARNATION": "x"}, "ACTORFLOW_INCARNATION must be an integer of at least 1, got 'x'"),
        (OWN | {"ACTORFLOW_COORDINATOR": "host"}, "ACTORFLOW_COORDINATOR must be an address"),
        (OWN | {"ACTORFLOW_COORDINATOR": "h:0"}, "ACTORFLOW_COORDINATOR must be an address"),
        (OWN | {"ACTORFLOW_COORDINATOR": "h:65536"}, "ACTORFLOW_COORDINATOR must be an address"),
        (OWN | {"ACTORFLOW_COORDINATOR": "udp://h:1"}, "ACTORFLOW_COORDINATOR must be an address"),
        (OWN | {"ACTORFLOW_COORDINATOR": "ipc://"}, "ACTORFLOW_COORDINATOR must be an address"),
        (OWN | {"ACTORFLOW_COORDINATOR": "::1:80"}, "ACTORFLOW_COORDINATOR must have brackets"),
        (TORCHRUN | {"RANK": "6"}, "RANK must be below WORLD_SIZE, 6, got 6"),
        (TORCHRUN | {"LOCAL_RANK": "2"}, "LOCAL_RANK must be below LOCAL_WORLD_SIZE, 2, got 2"),
        (TORCHRUN | {"MASTER_PORT": "65535"}, "MASTER_PORT must be below 65535"),
        (TORCHRUN | {"WORLD_SIZE": "2", "RANK": "1"}, "torchrun must start at least 3 processes, .* got 2"),
        (TORCHRUN | {"ACTORFLOW_PS": "5"}, "torchrun must start at least 7 processes"),
        (TORCHRUN | {"ACTORFLOW_WORKERS": "3"}, "ACTORFLOW_WORKERS must be 4, for torchrun has started 6"),
        ({"TF_CONFIG": "{"}, "TF_CONFIG must be JSON: "),
        ({"TF_CONFIG": "[" * 100_000}, "TF_CONFIG must be JSON: "),
        ({"TF_CONFIG": "[]"}, r"TF_CONFIG must be an object, got \[\]"),
        ({"TF_CONFIG": '{"cluster": {"chief": ["a:1"]}}'}, "TF_CONFIG must have a cluster and a task"),
        (tf_config("worker", 3), "TF_CONFIG must have a task index below 3 for worker, got 3"),
        (tf_config("worker", -1), "TF_CONFIG must have a task index below 3 for worker, got -1"),
        (tf_config("worker", True), "TF_CONFIG must have a task index below 3 for worker, got True"),
        (tf_config("evaluator", 0), "TF_CONFIG must have a task of type chief, ps or worker, got 'evaluator'"),
        (tf_config(cluster=LISTED | {"chief": ["a:1", "b:1"]}), "TF_CONFIG must have one chief"),
        (tf_config(cluster=LISTED | {"master": ["a:1"]}), "TF_CONFIG must have a chief or a master"),
        (tf_config(cluster=LISTED | {"ps": []}), "TF_CONFIG must list the addresses of ps"),
        (tf_config(cluster={"worker": ["a:1"]}), "TF_CONFIG must list the addresses of chief"),
        (tf_config(cluster=LISTED | {"worker": "a:1"}), "TF_CONFIG must list the addresses of worker"),
        (tf_config(cluster=LISTED | {"worker": ["a", "b", "c"]}), "TF_CONFIG must be an address"),
        (SLURM | {"SLURM_PROCID": "4"}, "SLURM_PROCID must be below SLURM_NTASKS, 4, got 4"),
        (SLURM | {"SLURM_JOB_NODELIST": "gpu["}, "SLURM_JOB_NODELIST must be a list of hosts"),
        (KUBERNETES | {"JOB_COMPLETION_INDEX": "4"}, "JOB_COMPLETION_INDEX must be below 4"),
    ],
)  # fmt: skip
def test_variables_that_contradict_each_other_or_cannot_be_read_are_named(environ, said):
    with pytest.raises(ConfigError, match=said):
        detect(environ)


def test_an_evaluator_is_told_what_to_do():
    with pytest.raises(ConfigError) as refused:
        detect(tf_config("evaluator", 0))

    assert "program of its own" in str(refused.value)


def test_ranks_are_the_chief_then_ps_then_workers():
    assert [seat(rank, 2) for rank in range(5)] == [
        ("chief", 0),
        ("ps", 0),
        ("ps", 1),
        ("worker", 0),
        ("worker", 1),
    ]


def test_names_of_processes():
    assert [Task(*seat(rank, 2), 2, 2, "tcp://a:1").name for rank in range(5)] == [
        "chief",
        "ps0",
        "ps1",
        "worker0",
        "worker1",
    ]


@given(st.data())
def test_what_a_launcher_says_is_what_a_child_detects(data):
    ps, workers = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    job, index = seat(data.draw(st.integers(0, ps + workers)), ps)
    task = Task(
        job,
        index,
        ps,
        workers,
        data.draw(st.sampled_from(["tcp://a:1", "ipc:///run/af-0/x", "tcp://[::1]:9"])),
        incarnation=data.draw(st.none() | st.integers(1, 2**50)),
        bind=data.draw(st.none() | st.sampled_from(["tcp://b:2", "tcp://127.0.0.1:0", "ipc:///run/b"])),
        local=data.draw(st.none() | st.integers(0, 7)),
    )

    assert detect(TORCHRUN | task.environ()) == task


NAMES = sorted(
    {name for environ in (OWN, TORCHRUN, SLURM, OPEN_MPI, PMI, KUBERNETES) for name in environ}
    | {"TF_CONFIG"}
)
values = st.sampled_from(["", "0", "1", "7", "-1", "x", "worker", "chief", "a:1", "n[1-2]", "{}", tf_config()["TF_CONFIG"]])  # fmt: skip


@given(st.dictionaries(st.sampled_from(NAMES), values | st.text(max_size=5)))
def test_any_variables_give_a_task_none_or_a_typed_error(environ):
    try:
        task = detect(environ)
    except ConfigError:
        return
    assert task is None or (task.index < max(1, task.ps, task.workers) and "://" in task.coordinator)
