from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import GraphError, SpecError
from actorflow.graph.builder import (
    as_tensor,
    build,
    colocate_with,
    control_dependencies,
    device,
    name_scope,
    on_behalf_of,
)
from actorflow.graph.graph import Graph
from tests.support.python import run_python
from tests.support.reference import evaluate

PACKAGE = Path(af.__file__).parents[1]
PROGRAM = "import actorflow as af\nwith af.Graph():\n    print(af.constant(1.0).node.defined_at)\n"


def line_told(script: Path, package: Path, directory: Path) -> str:
    """Where PROGRAM, which is at `script`, was told that its constant is defined."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    return run_python(script, cwd=directory, env=environment, check=True).stdout.strip()


def written(script: Path) -> Path:
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(PROGRAM)
    return script


def lines_of(error: BaseException) -> list[str]:
    return [line.strip() for line in str(error).splitlines()]


def test_a_refused_node_names_both_shapes_the_inputs_and_all_three_lines() -> None:
    with Graph():
        x = af.placeholder("float32", (32, 784), name="x")
        w = af.placeholder("float32", (512, 10), name="w")
        with name_scope("dense"), pytest.raises(SpecError) as caught:
            x @ w

    here = x.node.defined_at.split(":")[0]
    first = int(x.node.defined_at.split(":")[1])
    assert here.endswith("graph/test_builder.py")
    assert lines_of(caught.value) == [
        "matmul needs equal inner dimensions, got (32, 784) and (512, 10)",
        f"input 0: x:0 (32, 784) float32, defined at {here}:{first}",
        f"input 1: w:0 (512, 10) float32, defined at {here}:{first + 1}",
        f"where: node dense/matmul, op matmul, defined at {here}:{first + 3}",
        "try:   the last size of input 0 must be the last but one of input 1",
    ]


def test_a_product_that_a_transpose_would_mend_says_so() -> None:
    with Graph():
        x = af.placeholder("float32", (32, 784), name="x")
        w = af.placeholder("float32", (10, 784), name="w")
        with pytest.raises(SpecError, match="transpose input 1"):
            x @ w


def test_dtypes_of_different_kinds_are_refused_with_both_of_them() -> None:
    with Graph():
        x = af.placeholder("float32", (3,), name="x")
        with pytest.raises(SpecError) as caught:
            x + np.zeros(3, "int64")

    assert lines_of(caught.value)[0] == "add needs equal dtypes, got (3,) float32 and (3,) int64"
    assert (
        lines_of(caught.value)[-1]
        == "try:   floating numbers and integers are not mixed; convert one with af.cast, such as af.cast(x, 'float32')"
    )


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("float32", 2), ("float32", 2.5), ("bfloat16", 0.5), ("int8", 3), ("complex64", 1.5)],
)
def test_a_python_number_takes_the_dtype_of_the_tensor(dtype: str, number: float) -> None:
    with Graph():
        x = af.placeholder(dtype, (3,), name="x")

        assert (x + number).dtype == x.dtype
        assert (number * x).dtype == x.dtype


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("int32", 1.5), ("int8", 300), ("float32", 1j), ("uint8", -1), ("float32", 1e39), ("uint8", True)],
)
def test_a_python_number_that_the_dtype_cannot_hold_is_refused(dtype: str, number: complex) -> None:
    with Graph():
        x = af.placeholder(dtype, (3,), name="x")

        with pytest.raises(SpecError, match=f"no {dtype} tensor can hold"):
            x + number


def test_numpy_arrays_and_scalars_leave_the_operator_to_the_tensor() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (2,), name="x")
        y = np.array([1.0, 2.0]) + np.float64(3) * x

    assert evaluate(graph, y, {x: [10, 20]}).tolist() == [31, 62]


def test_every_operator_builds_its_op() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (2, 2), name="x")
        y = af.placeholder("float64", (2, 2), name="y")
        made = [
            x + y, 1 + y, x - y, 1 - y, x * y, 2 * y, x / y, 1 / y, x**y, 2**y, x @ y, -x, abs(x), x < y, x <= y,
            x > y, x >= y, x[0],
        ]  # fmt: skip
    a, b = np.array([[1.0, -2], [3, 4]]), np.array([[2.0, 2], [1, -1]])
    said = [
        a + b, 1 + b, a - b, 1 - b, a * b, 2 * b, a / b, 1 / b, a**b, 2**b, a @ b, -a, abs(a), a < b, a <= b,
        a > b, a >= b, a[0],
    ]  # fmt: skip

    for mine, theirs in zip(evaluate(graph, made, {x: a, y: b}), said, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_constants_are_private_copies() -> None:
    value = np.zeros(2, "float32")
    with Graph() as graph:
        c = af.constant(value)
    value[:] = 1

    assert evaluate(graph, c).tolist() == [0, 0]


@pytest.mark.parametrize("value", ["text", object(), [[1.0], [2.0, 3.0]], np.array(["a"])])
def test_what_no_tensor_can_hold_is_refused(value: object) -> None:
    with Graph(), pytest.raises(SpecError, match="no tensor can hold"):
        as_tensor(value)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1, "int32"), (2**40, "int64"), (-(2**31), "int32"), (1.5, "float32"), (True, "bool"), ([], "float32")],
)
def test_plain_values_become_the_small_dtypes(value: object, dtype: str) -> None:
    with Graph():
        assert as_tensor(value).dtype.name == dtype


def test_attributes_must_be_plain() -> None:
    with Graph(), pytest.raises(GraphError, match=r"got axis=\[0\] for 'sum'"):
        build("sum", [[1.0]], {"axis": [0], "keepdims": False})


def test_nodes_on_behalf_of_another_take_its_line_and_its_place() -> None:
    with Graph():
        with name_scope("layer"), device("/cpu:1"):
            x = af.constant(1.0, name="x")
        with on_behalf_of(x.node, "gradients"):
            y = af.negative(x)

    assert y.node.name == "gradients/layer/x/negative"
    assert y.node.defined_at == x.node.defined_at
    assert y.node.device == "/cpu:1"


def test_a_tensor_of_another_graph_is_refused() -> None:
    with Graph():
        x = af.constant(1.0)
    with Graph(), pytest.raises(GraphError, match="belongs to another graph"):
        af.negative(x)


@pytest.mark.parametrize(
    ("directory", "line"),
    [("home", "model/net.py:3"), ("home/model", "net.py:3"), ("elsewhere", "model/net.py:3")],
)
def test_a_line_is_relative_to_the_current_directory_or_has_its_folder(
    tmp_path: Path, directory: str, line: str
) -> None:
    script = written(tmp_path / "home" / "model" / "net.py")
    (tmp_path / "elsewhere").mkdir()

    assert line_told(script, PACKAGE, tmp_path / directory) == line


def test_a_package_behind_a_symbolic_link_is_no_users_code(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    link = tmp_path / "home" / "actorflow"
    link.symlink_to(PACKAGE, target_is_directory=True)

    assert line_told(written(tmp_path / "net.py"), link, tmp_path) == "net.py:3"


def test_a_file_beside_the_package_that_begins_with_its_name_is_users_code(tmp_path: Path) -> None:
    link = tmp_path / "actorflow"
    link.symlink_to(PACKAGE, target_is_directory=True)
    written(tmp_path / "actorflow_model.py")
    script = tmp_path / "main.py"
    script.write_text("import actorflow_model\n")

    assert line_told(script, link, tmp_path) == "actorflow_model.py:3"


@pytest.mark.parametrize(
    ("enter", "said"),
    [
        (lambda _: name_scope(cast("Any", None)), "a name scope is a text that is not empty, got None"),
        (lambda _: name_scope(""), "a name scope is a text that is not empty, got ''"),
        (
            lambda _: colocate_with("x"),
            "colocate_with takes a tensor, a variable or a queue of this graph, got 'x'",
        ),
        (lambda x: control_dependencies(x), "control_dependencies takes a list of tensors, got <Tensor x:0"),
        (
            lambda _: control_dependencies(cast("Any", af.Variable(1.0))),
            "control_dependencies takes a list of tensors, got <",
        ),
        (
            lambda _: control_dependencies(cast("Any", None)),
            "control_dependencies takes a list of tensors, got None",
        ),
    ],
)
def test_a_scope_that_cannot_be_entered_says_so_at_its_line(enter: Any, said: str) -> None:
    with Graph():
        x = af.placeholder("float32", name="x")
        with pytest.raises(GraphError) as caught, enter(x):
            pass

    assert lines_of(caught.value)[0].startswith(said)
    assert "graph/test_builder.py:" in str(caught.value)


@pytest.mark.parametrize("make", [lambda: af.placeholder("float31"), lambda: af.constant(1.0, "float31")])
def test_a_dtype_that_no_tensor_has_is_told_with_its_line(make: Any) -> None:
    with Graph(), pytest.raises(SpecError, match="float31") as caught:
        make()

    assert "graph/test_builder.py:" in str(caught.value)
