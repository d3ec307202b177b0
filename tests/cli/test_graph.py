"""What `actorflow graph` prints and draws, on graphs made by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actorflow.cli import dot, main
from actorflow.cli.graph import describe
from actorflow.graph.graph import Graph, QueueDef, VariableDef
from actorflow.graph.node import Node, NodeId, Port
from actorflow.spec import spec


def add(
    graph: Graph, op: str, name: str, *inputs: Node, controls: tuple[NodeId, ...] = (), device: str = ""
) -> Node:
    with graph.scoped(graph.scope.__class__(device=device)):
        return graph.add(
            op,
            name=name,
            inputs=tuple(Port(n.id) for n in inputs),
            attrs={},
            outputs=(spec("float32", (None, 3)),),
            defined_at="model.py:7",
            controls=controls,
        )


def small() -> Graph:
    graph = Graph(seed=5)
    x = add(graph, "placeholder", "x")
    h = add(graph, "matmul", "conv1/matmul", x, x, device="/gpu:0")
    add(graph, "relu", "conv1/out", h, controls=(x.id,))
    graph.add_resource(VariableDef("conv1/w", spec("float32", (3, 4)), None, True, "", "model.py:3"))
    graph.add_resource(VariableDef("mean", spec("float32", ()), None, False, "/cpu:0", "model.py:4"))
    graph.add_resource(QueueDef("examples", (spec("int32", (2,)),), 10, "", "model.py:5"))
    return graph


def test_the_table_names_every_node_with_its_spec_inputs_and_line() -> None:
    assert list(describe(small())) == [
        "3 nodes, 2 variables, 1 queue, 12 trainable parameters, seed 5",
        "",
        "state     spec                               device  defined at",
        "conv1/w   (3, 4) float32                     -       model.py:3",
        "mean      () float32, not trainable          /cpu:0  model.py:4",
        "examples  queue of [(2,) int32], at most 10  -       model.py:5",
        "",
        "node          op           spec               device  defined at  inputs",
        "x             placeholder  (None, 3) float32  -       model.py:7  -",
        "conv1/matmul  matmul       (None, 3) float32  /gpu:0  model.py:7  x, x",
        "conv1/out     relu         (None, 3) float32  -       model.py:7  conv1/matmul, ^x",
    ]


def test_an_empty_graph_still_has_its_headings() -> None:
    assert list(describe(Graph()))[-1].startswith("node  op")


def test_the_drawing_groups_nodes_by_name_scope_and_state_as_cylinders() -> None:
    drawn = dot.render(small(), title="small")

    scope = drawn[drawn.index('subgraph "cluster conv1"') : drawn.index("  }")]
    assert '"state conv1/w" [label="w\\n(3, 4) float32" shape=cylinder];' in scope
    assert 'n1 [label="matmul\\n/gpu:0"];' in scope
    assert 'n2 [label="out\\nrelu"];' in scope
    assert 'n0 [label="x\\nplaceholder"];' not in scope
    assert '"state examples" [label="examples\\nqueue" shape=cds];' in drawn


def test_the_drawing_has_an_edge_an_input_and_a_dashed_one_a_control() -> None:
    drawn = dot.render(small())

    assert drawn.count('n0 -> n1 [label="(None, 3) float32"];') == 2
    assert "n0 -> n2 [style=dashed];" in drawn
    assert len(re.findall("->", drawn)) == 4


def test_names_cannot_break_out_of_their_quotes() -> None:
    graph = Graph()
    add(graph, "relu", 'a"b\\')

    assert 'n0 [label="a\\"b\\\\\\nrelu"];' in dot.render(graph, title='t"')
    assert dot.render(graph, title='t"').startswith('digraph "t\\"" {')


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prog.py"
    path.write_text(
        "from actorflow.graph.graph import Graph\ndef build(seed):\n    return Graph(seed=seed)\n"
    )
    return path


def test_the_command_prints_the_table_and_writes_the_drawing(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "g.dot"

    assert main(["graph", str(file), "--seed", "9", "--dot", str(out)]) == 0

    assert capsys.readouterr().out.startswith(
        "0 nodes, 0 variables, 0 queues, 0 trainable parameters, seed 9\n"
    )
    assert out.read_text().startswith('digraph "prog" {')


def test_a_drawing_that_cannot_be_written_is_an_error(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", str(file), "--dot", str(tmp_path)]) == 2
    assert (
        capsys.readouterr().err
        == f"ProgramError: {tmp_path} must be a file that can be written, got Is a directory\n"
    )
