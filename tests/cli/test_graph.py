"""What `actorflow graph` prints and draws, on graphs made by hand."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import actorflow as af
from actorflow.cli import main
from actorflow.cli.display import dot
from actorflow.cli.graph import describe
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, NodeId, Port
from actorflow.graph.resource import QueueDef, VariableDef
from actorflow.values.spec import spec
from tests.support.busy import HANG_S


def add(
    graph: Graph, op: str, name: str, *inputs: Node, controls: tuple[NodeId, ...] = (), device: str = ""
) -> Node:
    with graph.use_scope(graph.scope.__class__(device=device)):
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
    graph.add_resource(
        VariableDef(
            name="conv1/w",
            spec=spec("float32", (3, 4)),
            initial=None,
            trainable=True,
            defined_at="model.py:3",
        )
    )
    graph.add_resource(
        VariableDef(
            name="mean",
            spec=spec("float32", ()),
            initial=None,
            trainable=False,
            device="/cpu:0",
            defined_at="model.py:4",
        )
    )
    graph.add_resource(
        QueueDef(name="examples", components=(spec("int32", (2,)),), capacity=10, defined_at="model.py:5")
    )
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
        "#  node              spec               inputs  device  defined at",
        "0  x (placeholder)   (None, 3) float32  -       -       model.py:7",
        "1  conv1/matmul      (None, 3) float32  0 0     /gpu:0  model.py:7",
        "2  conv1/out (relu)  (None, 3) float32  1 ^0    -       model.py:7",
    ]


def test_devices_have_a_column_where_somebody_names_one() -> None:
    graph = Graph()
    add(graph, "placeholder", "x")

    assert list(describe(graph))[-2:] == [
        "#  node             spec               inputs  defined at",
        "0  x (placeholder)  (None, 3) float32  -       model.py:7",
    ]


def test_every_kind_of_state_is_told_in_the_table_and_in_the_drawing() -> None:
    with af.Graph() as graph:
        af.state.Barrier(["float32", "bytes"], [(2,), ()], capacity=4)
        af.state.ConditionalAccumulator("float32", (2,), "sum")
        af.state.SparseConditionalAccumulator("float32", (9, 2))
        af.state.HashTable("bytes", "int64", -1, mutable=False)
        af.state.Counter(1, 5)
        af.state.Stack("int32", (), 3)

    lines = list(describe(graph))

    assert lines[0].startswith(
        "1 node, 0 variables, 0 queues, 1 barrier, 1 accumulator, 1 sparse accumulator, 1 "
    )
    told = [r.description for r in graph.resources.values()]
    assert told == [
        "barrier of [(2,) float32, () bytes], at most 4",
        "sum of (2,) float32",
        "mean of rows of (9, 2) float32",
        "() int64 by bytes, fixed",
        "counter from 1 to 5",
        "stack of () int32, at most 3 elements",
    ]
    drawn = dot.render(graph, title="state")
    for text in told:
        assert any(text in line for line in lines)
        assert text in drawn


@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit_the_terminal_and_names_keep_their_ends(width: int) -> None:
    graph = Graph()
    x = add(graph, "placeholder", "x")
    add(graph, "relu", f"{'a_long_scope/' * 9}relu", *[x] * 20)

    lines = list(describe(graph, width))

    assert max(map(len, lines)) <= width
    assert re.search(r"^1  …?\S*/relu  \(None, 3\) float32  0 0 0 0 ?…  ", lines[-1])
    assert lines[-1].endswith("  model.py:7")


def test_shared_state_and_atomic_blocks_are_told() -> None:
    with af.Graph() as graph:
        a = af.Variable(1.0, name="a")
        with af.state.container("bank"):
            b = af.Variable(0.0, name="b", shared_name="savings")
        with af.atomic(a, b, name="transfer"):
            a.assign_sub(1.0)
            b.assign_add(1.0)

    lines = [re.sub(r" +\S+:\d+$", "", line) for line in describe(graph)]
    assert "b      () float32, shared as savings in bank" in lines
    blocks = [re.split("  +", line) for line in lines if "transfer" in line]
    assert [(name, inputs) for _, name, _, inputs in blocks] == [
        ("transfer/lock/b (lock_variable)", "-"),
        ("transfer/lock/a (lock_variable)", "^2"),
        ("transfer/end (unlock_variables)", "^3 ^5 ^7"),
    ]
    drawn = edges(dot.render(graph))
    assert '"state b" -> n2 [style=dotted];' in drawn
    assert {f'n8 -> "state {n}" [style=dotted constraint=false];' for n in "ab"} <= set(drawn)


def test_an_empty_graph_still_has_its_headings() -> None:
    assert list(describe(Graph()))[-1].startswith("#  node  spec")


def label(drawn: str, identifier: str) -> str:
    """What is written in a box, tags and all, and how it looks."""
    found: str
    (found,) = re.findall(rf"^ *{re.escape(identifier)} \[label=<(.*)\];$", drawn, re.MULTILINE)
    return re.sub(r"</?font[^>]*>", "", found)


def edges(drawn: str) -> list[str]:
    return [line.strip() for line in drawn.splitlines() if " -> " in line]


def cluster(drawn: str, path: str) -> str:
    """The lines of a cluster, those within included."""
    inside: str
    (indent, inside) = re.findall(
        rf'^( *)subgraph "cluster {path}" \{{\n(.*?)^\1\}}', drawn, re.MULTILINE | re.DOTALL
    )[0]
    assert indent
    return inside


def test_the_drawing_groups_by_name_scope_and_shows_state_as_cylinders() -> None:
    drawn = dot.render(small(), title="small")

    assert label(drawn, '"state conv1/w"').startswith("w<br/>(3, 4) float32> shape=cylinder")
    assert label(drawn, '"state examples"').startswith("examples<br/>queue<br/>(2,) int32> shape=cds")
    assert label(drawn, "n1") == "matmul<br/>(None, 3) float32<br/>/gpu:0>"
    assert label(drawn, "n2") == "out<br/>relu<br/>(None, 3) float32>"
    inside = cluster(drawn, "conv1")
    assert all(part in inside for part in ('"state conv1/w"', "n1 ", "n2 "))
    assert "n0" not in inside


def test_the_drawing_has_an_edge_an_input_and_a_dashed_one_a_control() -> None:
    assert edges(dot.render(small())) == ["n0 -> n1;", "n0 -> n1;", "n1 -> n2;", "n0 -> n2 [style=dashed];"]


def test_a_scope_with_little_in_it_is_drawn_in_the_one_around_it() -> None:
    graph = Graph()
    for name in ("a/b/c/x", "a/b/c/y", "a/b/c/z", "d/e/x"):
        add(graph, "relu", name)

    drawn = dot.render(graph)

    assert re.findall('"cluster (.*)"', drawn) == ["a/b/c"]
    assert label(drawn, "n3").startswith("d/e/x<br/>relu")


def trained() -> Graph:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, 3), name="x")
        w = af.Variable(af.init.he((3, 2)), name="layer/w")
        b = af.Variable(af.init.zeros((2,)), name="layer/b")
        with af.name_scope("model"), af.name_scope("layer"):
            h = af.nn.dropout(x @ w + b, 0.5)
        af.minimize(af.mean(h * 2.0), af.optim.sgd(0.1))
    return graph


def test_a_read_is_a_dashed_cylinder_beside_its_use() -> None:
    graph = trained()
    drawn = dot.render(graph)
    read = graph.node("model/layer/layer/w/read").id

    assert label(drawn, f"n{read}").startswith("layer/w<br/>(3, 2) float32> shape=cylinder")
    assert label(drawn, f"n{read}").endswith("style=dashed")
    assert f"n{read} [" in cluster(drawn, "model/layer")


def test_gradients_lead_up_to_the_update_and_the_update_to_the_variables() -> None:
    graph = trained()
    drawn = edges(dot.render(graph))
    update = graph.node("train/apply_gradients")
    dropout = graph.node("model/layer/dropout")
    scale = graph.node("train/gradients/model/layer/dropout/multiply")

    assert [e for e in drawn if e.startswith(f"n{update.id} ")] == [
        *(f"n{update.id} -> n{port.node} [dir=back];" for port in update.inputs),
        f'n{update.id} -> "state layer/w" [style=dotted constraint=false];',
        f'n{update.id} -> "state layer/b" [style=dotted constraint=false];',
    ]
    assert f'n{dropout.id} -> n{scale.id} [color=grey75 minlen=0 taillabel=":1"];' in drawn


def test_first_values_are_small_and_numbers_are_called_by_their_value() -> None:
    graph = trained()
    drawn = dot.render(graph)
    zero = graph.node("layer/b/initial/constant").id
    spread = graph.node("layer/b/initial/broadcast_to").id

    assert label(drawn, f"n{zero}").startswith("b/initial/0.0<br/>() float32> shape=plaintext fontsize=8")
    assert "fontsize=8" in label(drawn, f"n{spread}")
    assert f'n{spread} -> "state layer/b" [style=dotted];' in edges(drawn)


def test_what_changes_a_state_points_to_it_and_what_asks_is_pointed_to() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(3, "float32", (), name="q")
        put, got, size = queue.enqueue(1.0), queue.dequeue(), queue.size()
        total = af.Variable(0.0, name="total")
        written, version = total.assign_add(got), total.version()

    dotted = [e for e in edges(dot.render(graph)) if "dotted" in e][:5]

    assert dotted == [
        f'n{put.node.id} -> "state q" [style=dotted];',
        f'"state q" -> n{got.node.id} [style=dotted];',
        f'"state q" -> n{size.node.id} [style=dotted];',
        f'n{written.node.id} -> "state total" [style=dotted];',
        f'"state total" -> n{version.node.id} [style=dotted];',
    ]


def test_names_cannot_break_out_of_their_quotes() -> None:
    graph = Graph()
    add(graph, "relu", 'a"b\\<i>')

    drawn = dot.render(graph, title='t"')

    assert label(drawn, "n0").startswith("a&quot;b\\&lt;i&gt;<br/>relu")
    assert drawn.startswith('digraph "t\\"" {')


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("make", [small, trained])
def test_graphviz_draws_it_without_a_complaint(make: Callable[[], Graph]) -> None:
    ran = subprocess.run(
        ["dot", "-Tsvg"], input=dot.render(make(), title='t"'), capture_output=True, text=True, timeout=HANG_S
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count('class="node"') == len(make()) + len(make().resources)


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

    said = capsys.readouterr().out
    assert said.startswith("0 nodes, 0 variables, 0 queues, 0 trainable parameters, seed 9\n")
    assert said.endswith(f"\nwrote {out}; Graphviz draws it: dot -Tsvg -O {out}\n")
    assert out.read_text().startswith('digraph "prog" {')


def test_a_drawing_that_cannot_be_written_is_an_error(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", str(file), "--dot", str(tmp_path)]) == 2
    assert (
        capsys.readouterr().err
        == f"ProgramError: {tmp_path} must be a file that can be written, got Is a directory\n"
    )


def test_the_drawing_is_there_though_nobody_reads_the_table(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "g.dot"

    def leave(graph: Graph, width: int | None) -> list[str]:
        raise BrokenPipeError

    monkeypatch.setattr("actorflow.cli.graph.describe", leave)
    monkeypatch.setattr("os.dup2", lambda *_: None)

    assert main(["graph", str(file), "--dot", str(out)]) == 141
    assert out.read_text().startswith('digraph "prog" {')


def test_a_dash_prints_the_drawing_alone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(file), "--dot", "-"]) == 0

    out = capsys.readouterr().out
    assert out.startswith('digraph "prog" {')
    assert out.endswith("}\n")
    assert not Path("-").exists()


def looping() -> Graph:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        af.while_loop(lambda s: s < x, lambda s: af.cond(s > 1.0, lambda: s * x, lambda: s + 1.0), 1.0)
    return graph


def test_bodies_have_tables_of_their_own() -> None:
    lines = list(describe(looping()))

    assert lines[0].startswith("3 nodes, 0 variables, 0 queues, 4 bodies, ")
    heads = [line for line in lines if line.startswith(("the ", "branch "))]
    assert heads[:2] == [
        "the condition of 'while_loop', takes 0, uses 1, gives 2",
        "the body of 'while_loop', takes 0, uses 3, gives 4",
    ]
    assert any("while_loop/cond/less" in line for line in lines)
    assert len([line for line in lines if line.startswith("#")]) == 5


def test_a_drawing_names_the_bodies_that_a_node_runs() -> None:
    drawn = dot.render(looping())

    assert "runs while_loop/cond: 3 nodes" in drawn
    assert "runs while_loop/body: " in drawn
    assert drawn.count("->") == 2
