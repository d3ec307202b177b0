"""Every way to get a program file wrong says what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from actorflow.errors import GraphError, ProgramError
from actorflow.graph.graph import Graph
from actorflow.training.program_file import ProgramFile


def write(folder: Path, text: str, name: str = "prog.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ProgramError) as caught:
        ProgramFile(path).program(0)
    return str(caught.value)


def test_a_missing_file_lists_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, "", "digits.py")

    said = refusal(tmp_path / "digit.py")

    assert said == f"there is no program file {tmp_path}/digit.py\n  try:   {tmp_path} has digits.py"


def test_a_file_in_a_missing_folder_has_no_neighbours(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no" / "a.py") == f"there is no program file {tmp_path}/no/a.py"


@pytest.mark.parametrize("name", ["data.csv", "folder"])
def test_only_a_python_file_is_a_program_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir()

    assert refusal(path) == f"a program file is a Python file, got {path}"


def test_a_file_without_build_lists_what_it_defines(tmp_path: Path) -> None:
    path = write(
        tmp_path, "import os\nfrom pathlib import Path\nBATCH = 3\n_x = 1\ndef model(x): ...\nclass Net: ..."
    )

    assert refusal(path) == (
        f"a program file must define build(seed), but {path} has none\n  try:   define it beside BATCH, Net, model"
    )


def test_an_empty_file_points_at_the_example(tmp_path: Path) -> None:
    assert "examples/digits.py is a complete program file" in refusal(write(tmp_path, ""))


def test_a_build_that_is_no_function_is_shown(tmp_path: Path) -> None:
    assert "has 3 of that name" in refusal(write(tmp_path, "build = 3"))


@pytest.mark.parametrize(
    ("signature", "reason"),
    [("()", "too many positional arguments"), ("(seed, width)", "missing a required argument: 'width'")],
)
def test_build_takes_the_seed_alone(tmp_path: Path, signature: str, reason: str) -> None:
    said = refusal(write(tmp_path, f"\ndef build{signature}: ..."))

    assert said == (
        f"build must take one argument, the seed, got build{signature}: {reason}\n  where: defined at prog.py:2"
    )


def test_a_syntax_error_is_placed_at_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "x = 1\ny = = 2\n")

    assert refusal(path) == f"{path} must import without an error\n  where: defined at prog.py:2"


def test_a_failing_import_keeps_its_cause_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "def f():\n    return 1 / 0\n\nx = f()\n")

    with pytest.raises(ProgramError, match=r"prog\.py:2") as caught:
        ProgramFile(path)

    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    said = refusal(write(tmp_path, "import no_such_package_anywhere"))

    assert "install the package with the module 'no_such_package_anywhere'" in said


def test_a_failing_build_is_placed_at_its_line(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, "def build(seed):\n    return {}[seed]\n")) == (
        "build(0) must not fail\n  where: defined at prog.py:2"
    )


def test_an_error_of_the_graph_comes_through_as_it_is(tmp_path: Path) -> None:
    text = "from actorflow.graph.graph import Graph\ndef build(seed):\n    return Graph().node('w')\n"

    with pytest.raises(GraphError, match="the graph has no node named 'w'"):
        ProgramFile(write(tmp_path, text)).program(0)


@pytest.mark.parametrize(
    ("body", "got"), [("pass", "got None; does it return anything?"), ("return {}", "got dict")]
)
def test_build_must_return_a_program(tmp_path: Path, body: str, got: str) -> None:
    said = refusal(write(tmp_path, f"def build(seed):\n    {body}\n"))

    assert said == f"build(seed) must return an af.Program, {got}\n  where: defined at prog.py:1"


def test_a_bare_graph_can_be_shown_but_not_trained(tmp_path: Path) -> None:
    text = "from actorflow.graph.graph import Graph\ndef build(seed):\n    return Graph(seed=seed)\n"
    file = ProgramFile(write(tmp_path, text))

    assert isinstance(file.graph(7), Graph)
    assert file.graph(7).seed == 7
    with pytest.raises(ProgramError, match="got Graph"):
        file.program(7)


def test_a_program_file_may_import_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, "from actorflow.graph.graph import Graph", "neighbour_of_prog.py")

    file = ProgramFile(
        write(tmp_path, "from neighbour_of_prog import Graph\ndef build(seed):\n    return Graph()\n")
    )

    assert len(file.graph(0)) == 0


def test_build_is_no_coroutine(tmp_path: Path) -> None:
    said = refusal(write(tmp_path, "async def build(seed): ..."))

    assert said == (
        "build must be a plain function, got an async one\n  where: defined at prog.py:1\n"
        "  try:   write def build(seed), without async"
    )


# -- what names a program in other processes --------------------------------------------------------------


def test_a_file_is_named_by_its_path_and_perhaps_what_builds_there(tmp_path: Path) -> None:
    path = write(
        tmp_path, "import actorflow as af\ndef make(seed):\n    return af.Graph(seed=seed)\nbuild = make\n"
    )

    assert ProgramFile(path).name == str(path)
    named = ProgramFile(f"{path}:make")
    assert named.name == f"{path}:make"
    assert named.path == path
    assert named.graph(3).seed == 3


def test_a_file_without_what_should_build_there_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, "def build(seed):\n    return seed\n")

    with pytest.raises(
        ProgramError, match=r"a program file must define make\(seed\), but .*prog.py has none"
    ):
        ProgramFile(f"{path}:make")


def test_a_module_is_named_by_itself() -> None:
    named = ProgramFile("tests.cluster.children:build")

    assert named.name == "tests.cluster.children:build"
    assert named.program(0).epochs == 1_000_000


def test_a_module_that_cannot_be_found_says_from_where_it_was_looked_for() -> None:
    with pytest.raises(ProgramError) as caught:
        ProgramFile("tests.nowhere.children:build")

    assert str(caught.value).startswith(
        "there is no module tests.nowhere.children\n  try:   modules are looked for"
    )


def test_a_module_that_fails_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "x = 1\ny = x / 0\n", "failing_program.py")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ProgramError) as caught:
        ProgramFile("failing_program:build")

    assert "failing_program must import without an error" in str(caught.value)
    assert "failing_program.py:2" in str(caught.value)


def test_a_function_names_the_module_or_the_file_where_others_find_it(tmp_path: Path) -> None:
    path = write(tmp_path, "def build(seed):\n    return seed\n", "own.py")
    from tests.cluster.children import build

    assert ProgramFile.of(build) == "tests.cluster.children:build"
    assert ProgramFile.of(ProgramFile(path)._build) == f"{path}:build"
    with pytest.raises(ProgramError, match="other processes import build by its name, got "):
        ProgramFile.of(lambda seed: build(seed))


@pytest.mark.parametrize(
    "ends",
    ["sys.exit(3)", "raise KeyboardInterrupt", "raise asyncio.CancelledError", "raise SystemExit('bye')"],
)
@pytest.mark.parametrize("building", [False, True])
def test_a_program_that_would_end_the_process_is_blamed_at_its_line(
    tmp_path: Path, ends: str, building: bool
) -> None:
    head = "import asyncio, sys\n"
    text = f"{head}def build(seed):\n    {ends}\n" if building else f"{head}x = 1\n{ends}\n"
    with pytest.raises(ProgramError) as caught:
        ProgramFile(write(tmp_path, text)).program(0)
    said = str(caught.value)
    assert ("build(0) must not fail" if building else "must import without an error") in said
    assert "where: defined at prog.py:3" in said
    assert ("__main__" in said) == ("xit" in ends)
    assert not isinstance(caught.value.__cause__, Exception)


@pytest.mark.parametrize("building", [False, True])
def test_ctrl_c_while_a_program_is_built_is_not_blamed_on_it(tmp_path: Path, building: bool) -> None:
    come = "import signal; signal.raise_signal(signal.SIGINT)"
    with pytest.raises(KeyboardInterrupt):
        ProgramFile(write(tmp_path, f"def build(seed):\n    {come}\n" if building else come)).program(0)


def test_actors_beside_build_that_no_program_has_are_no_secret(tmp_path: Path) -> None:
    body = "from tests.support.recorded import program\n\ndef actors(process): pass\n\ndef build(seed):\n    return program({})\n"
    file = write(tmp_path, body.format("lambda _: []"))
    with pytest.raises(
        ProgramError, match=r"has no actors, and the file defines actors\(process\)\n(.*\n)*.*actors=actors"
    ):
        ProgramFile(file).program(0)

    has = ProgramFile(write(tmp_path, body.format("lambda _: [], actors=actors"))).program(0)
    assert has.actors is not None
    other = body.replace("actors(process)", "actors(names)").format("lambda _: []")
    assert ProgramFile(write(tmp_path, other)).program(0).actors is None
