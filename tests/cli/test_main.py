"""Exit codes, and where the words go."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actorflow.cli import main
from actorflow.cli.command import COMMANDS
from tests.support.busy import HANG_S
from tests.support.python import run_python

ROOT = Path(__file__).parents[2]


def write(folder: Path, text: str) -> str:
    path = folder / "prog.py"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--traceback"], "required: COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["train"], "required: FILE"),
        (["train", "a.py", "--seeds", "0"], "--seeds: must be an integer of at least 1, got '0'"),
        (["train", "a.py", "--seed", "-1"], "--seed: "),
        (["train", "a.py", "--epochs", "2.5"], "--epochs: must be an integer of at least 1, got '2.5'"),
    ],
)
def test_a_wrong_command_line_is_explained_and_exits_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_without_a_command_it_lists_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [name for name in COMMANDS if f"\n    {name} " in err] == list(COMMANDS)


@pytest.mark.parametrize("command", ["train", "graph"])
def test_a_missing_file_exits_2_with_a_report_on_stderr(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "/no/such/file.py"]) == 2

    out, err = capsys.readouterr()
    assert (out, err) == ("", "ProgramError: there is no program file /no/such/file.py\n")


def test_the_report_names_the_failure_beneath(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", write(tmp_path, "x = {}['k']")]) == 2
    assert capsys.readouterr().err.endswith("  where: defined at prog.py:1\n  cause: KeyError: 'k'\n")


def test_an_error_of_the_graph_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "from actorflow.graph.graph import current\ndef build(seed):\n    return current()\n"

    assert main(["graph", write(tmp_path, text)]) == 1
    assert capsys.readouterr().err.startswith("GraphError: ops are built inside a graph")


def test_ctrl_c_while_the_file_is_imported_exits_130(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", write(tmp_path, "import signal\nsignal.raise_signal(signal.SIGINT)")]) == 130
    assert capsys.readouterr().err == "stopped by Ctrl-C before it began\n"


MODULE = ["-m", "actorflow"]
SCRIPT = [
    "-c",
    "import sys; from actorflow.cli import main; sys.exit(main())",
]  # what an installed script does

INTERRUPTED = "import signal; signal.raise_signal(signal.SIGINT)"
SWALLOWED = f"try:\n    {INTERRUPTED}\nexcept BaseException:\n    raise ImportError from None"
IGNORED = (
    f"import weakref\nclass Thing: ...\ndef callback(_):\n    {INTERRUPTED}\n"
    "thing = Thing()\nref = weakref.ref(thing, callback)\ndel thing"
)
IN_TEXT = f"exec({INTERRUPTED!r})"


@pytest.mark.slow
@pytest.mark.parametrize("entry", [MODULE, SCRIPT], ids=["module", "script"])
@pytest.mark.parametrize("rich", [INTERRUPTED, SWALLOWED, IGNORED, IN_TEXT])
def test_ctrl_c_while_a_library_is_imported_exits_130_without_a_traceback(
    tmp_path: Path, entry: list[str], rich: str
) -> None:
    (tmp_path / "rich.py").write_text(rich)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])

    ran = run_python(*entry, "train", "a.py", cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})

    assert (ran.returncode, ran.stdout) == (130, "")
    assert ran.stderr == "stopped by Ctrl-C before it began\n"


def test_the_door_imports_no_library_before_it_is_ready_for_ctrl_c() -> None:
    said = run_python(
        "-c", "import sys, actorflow.cli; print(*sys.modules)", cwd=ROOT, check=True
    ).stdout.split()

    assert not {"numpy", "rich", "asyncio", "argparse", "typing"} & set(said)


def test_a_traceback_is_shown_on_demand(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="must define build"):
        main(["--traceback", "graph", write(tmp_path, "")])


def test_help_says_what_a_program_file_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])

    assert caught.value.code == 0
    assert "defines build(seed), which returns an af.Program" in capsys.readouterr().out


@pytest.mark.slow
def test_a_reader_that_stops_reading_is_no_error(tmp_path: Path) -> None:
    text = (
        "from actorflow.graph.graph import Graph\n"
        "def build(seed):\n"
        "    g = Graph()\n"
        "    for _ in range(20_000):\n"
        "        g.add('relu', name='relu', inputs=(), attrs={}, outputs=(), defined_at='a.py:1')\n"
        "    return g\n"
    )
    command = [sys.executable, "-m", "actorflow", "graph", write(tmp_path, text)]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.readline()
        ran.stdout.close()
        assert ran.stderr.read() == b""


GRAPH = """\
from actorflow.graph.graph import Graph
def build(seed):
    print("built", "\\N{LATIN SMALL LETTER U WITH DIAERESIS}")
    return Graph()
"""


@pytest.mark.slow
def test_an_ascii_terminal_shows_what_it_can(tmp_path: Path) -> None:
    ran = run_python(
        "-m",
        "actorflow",
        "graph",
        write(tmp_path, GRAPH),
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("built ?\n0 nodes")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a file that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["train"], ["graph"]])
def test_a_full_disk_is_reported(tmp_path: Path, arguments: list[str], unbuffered: str) -> None:
    command = [sys.executable, "-m", "actorflow", *arguments, write(tmp_path, LOOPING)]

    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HANG_S,
        )

    assert (ran.returncode, ran.stderr) == (
        1,
        "standard output must be writable, got No space left on device\n",
    )


def test_another_error_of_the_system_keeps_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("actorflow.cli.graph.describe", fail)

    with pytest.raises(OSError, match="Too many"):
        main(["graph", write(tmp_path, GRAPH)])


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_do_not_end_a_run(tmp_path: Path, closed: str) -> None:
    program = write(tmp_path, LOOPING)
    command = f"exec {sys.executable} -m actorflow train {program} {closed}"

    ran = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S)

    assert (ran.returncode, ran.stderr) == (0, "")


LOOPING = """\
import actorflow as af
def build(seed):
    with af.Graph() as graph:
        loss = af.square(af.Variable(1.0, name="w").read())
        update = af.minimize(loss, af.optim.sgd(0.1))
    return af.Program(graph=graph, loss=loss, train=update, batches=lambda _: [{}], epochs=1)
"""
