from __future__ import annotations

import asyncio
import os
import re
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import OnnxError
from actorflow.graph.node import Port
from actorflow.interop import onnx
from actorflow.interop.onnx import builder_table

proto = pytest.importorskip("onnx", reason="needs the package onnx: pip install 'actorflow[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402  behind the question whether it is there

from tests.oracle.onnx_models import nets, wrong  # noqa: E402
from tests.oracle.onnx_nodes import outcome, reason  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(
    *nodes: Any,
    inputs: dict[str, tuple[Any, ...]],
    outputs: tuple[str, ...] = ("y",),
    constants: dict[str, Any] | None = None,
    opset: int = 21,
    imports: tuple[Any, ...] = (),
) -> Any:
    """A model of those nodes; an input is (dtype, shape)."""
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, [None]) for name in outputs],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *imports], ir_version=10)


def results(model: onnx.Imported, feeds: dict[str, Any]) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        async with af.Session(model.graph, threads=0) as session:
            found: dict[str, Any] = await session.run(model.outputs, feeds)
            return found

    return af.run(run())


def net() -> Any:
    """Convolution, normalisation, pool, and a dense layer, for a batch of any size."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((4, 3, 3, 3)),
        "b": rng.standard_normal(4),
        "scale": rng.uniform(1, 2, 4),
        "shift": rng.standard_normal(4),
        "mean": rng.standard_normal(4),
        "variance": rng.uniform(1, 2, 4),
        "dense": rng.standard_normal((5, 36)) / 36,
    }
    return model_of(
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 0, 1, 2], name="conv1"),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "dense"], ["g"], transB=1),
        helper.make_node("Softmax", ["g"], ["y"], axis=-1),
        inputs={"x": (FLOAT, ("batch", 3, 7, 7))},
        constants={name: value.astype("float32") for name, value in weights.items()},
    )


SMALL = model_of(
    helper.make_node("Reshape", ["x", "shape"], ["z"]),
    helper.make_node("Gemm", ["z", "w"], ["g"], transB=1, alpha=0.5),
    helper.make_node("Resize", ["g", "", "scales"], ["y"], mode="linear", name="wider"),
    inputs={"x": (FLOAT, ("n", 6))},
    constants={
        "w": np.ones((5, 3), "float32"),
        "shape": np.array([4, 3]),
        "scales": np.array([1, 2], "float32"),
    },
).SerializeToString()


# ------------------------------------------------------------------------ ONNX's own tests


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "least"),
    [
        ("argmax", 16), ("clip", 18), ("concat", 12), ("conv", 6), ("cumsum", 9), ("div", 10), ("einsum", 9),
        ("gathernd", 3), ("gemm", 11), ("gru", 6), ("logsoftmax", 7), ("matmul", 7), ("mod", 19), ("pad", 6),
        ("quantizelinear", 5), ("reducesum", 12), ("reshape", 10), ("resize", 39),
        ("scan", 3), ("scatternd", 7), ("slice", 8), ("split", 16), ("topk", 7), ("trilu", 18), ("unique", 7),
    ],
)  # fmt: skip
def test_cases_of_the_backend_suite_pass(module: str, least: int) -> None:
    suite = import_module("onnx.backend.test.case.node")
    before = len(suite._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, as the suite computes what it expects
        import_module(f"{suite.__name__}.{module}")
    chosen = [c for c in suite._NodeTestCases[before:] if reason(c.name) is None]

    outcomes = [asyncio.run(outcome(case)) for case in chosen]

    assert [o.name for o in outcomes if o.wrong] == []
    assert len(outcomes) >= least


def test_a_convolutional_net_computes_what_the_reference_does() -> None:
    from onnx.reference import ReferenceEvaluator

    x = np.random.default_rng(1).standard_normal((2, 3, 7, 7)).astype("float32")

    found = results(onnx.load(net()), {"x": x})

    np.testing.assert_allclose(found["y"], ReferenceEvaluator(net()).run(None, {"x": x})[0], rtol=1e-4)


@pytest.mark.slow
def test_a_whole_net_computes_what_came_with_it() -> None:
    path, given, expected = next(found for found in nets() if found[0].stem == "light_densenet121")

    assert af.run(wrong(path, given, expected)) == ""


# ---------------------------------------------------------------------------------- loading


def test_the_guide_runs(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text()
    program = re.search(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    relu = helper.make_node("Relu", ["x"], ["y"])
    proto.save(model_of(relu, inputs={"x": (FLOAT, (None, 3, 8, 8))}), tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    assert program is not None

    exec(program[1], {"__name__": "page"})

    assert capsys.readouterr().out == (
        "<Imported x (None, 3, 8, 8) float32 -> y (None, 3, 8, 8) float32>\n{'y': (1, 3, 8, 8)}\n"
    )


def test_bytes_and_paths_are_the_same_model(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(net().SerializeToString())
    x = np.ones((1, 3, 7, 7), "float32")

    one, two = onnx.load(path), onnx.load(path.read_bytes())

    np.testing.assert_array_equal(results(one, {"x": x})["y"], results(two, {"x": x})["y"])


def test_a_model_is_built_into_a_graph_that_is_given() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,), name="mine")
    relu = helper.make_node("Relu", ["x"], ["y"])

    model = onnx.load(model_of(relu, inputs={"x": (FLOAT, (2,))}), graph=graph)

    assert model.outputs["y"].graph is graph
    with graph:
        assert (model.outputs["y"] + x).shape == (2,)


def test_weights_can_be_trained() -> None:
    model = onnx.load(net(), trainable=True)
    with model.graph:
        loss = af.mean(af.square(model.outputs["y"] - 0.2))
        step = af.minimize(loss, af.optim.sgd(0.002))
    x = np.random.default_rng(1).standard_normal((4, 3, 7, 7)).astype("float32")

    async def losses() -> list[float]:
        async with af.Session(model.graph, threads=0) as session:
            first = await session.run(loss, {"x": x})
            for _ in range(50):
                await session.run(step, {"x": x})
            return [float(first), float(await session.run(loss, {"x": x}))]

    first, last = af.run(losses())

    assert sorted(model.variables) == ["b", "dense", "scale", "shift", "w"]  # no statistics
    assert last < first / 2


def test_initialisers_to_train_are_named() -> None:
    assert list(onnx.load(net(), trainable=["dense"]).variables) == ["dense"]


def test_a_fixed_input_is_no_input_any_more() -> None:
    total = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    source = model_of(total, inputs={"x": (FLOAT, (2, 3)), "axes": (INT64, (1,))})

    model = onnx.load(source, fixed={"axes": np.array([1])})

    assert onnx.inputs_to_fix(source) == ("axes",)
    assert list(model.inputs) == ["x"]
    assert results(model, {"x": np.ones((2, 3), "float32")})["y"].tolist() == [3, 3]


def test_what_follows_from_known_shapes_is_known() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["columns"]),
        helper.make_node("Concat", ["left", "columns"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {"one": np.array([1]), "left": np.array([-1])}

    model = onnx.load(model_of(*nodes, inputs={"x": (FLOAT, (2, 3, 4))}, constants=constants))

    assert model.outputs["y"].shape == (8, 3)


def test_sizes_beside_an_open_one_stay_known() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["batch"]),
        helper.make_node("Concat", ["batch", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["heads"]),
        helper.make_node("Concat", ["batch", "row"], ["wide"], axis=0),
        helper.make_node("Expand", ["heads", "wide"], ["all"]),
        helper.make_node("ConstantOfShape", ["batch"], ["zeros"]),
        helper.make_node("Identity", ["all"], ["y"]),
    ]
    constants = {
        "zero": np.array(0),
        "axes": np.array([0]),
        "rest": np.array([-1, 2, 1, 4]),
        "row": np.array([1, 1, 5, 1]),
    }
    inputs: dict[str, tuple[Any, ...]] = {"x": (FLOAT, ("n", 3, 8))}

    model = onnx.load(model_of(*nodes, inputs=inputs, outputs=("heads", "y", "zeros"), constants=constants))
    found = results(model, {"x": np.ones((2, 3, 8), "float32")})

    assert model.outputs["heads"].shape == (None, None, 2, 1, 4)
    assert model.outputs["y"].shape == (None, None, 2, 5, 4)
    assert {name: value.shape for name, value in found.items()} == {
        "heads": (2, 3, 2, 1, 4),
        "y": (2, 3, 2, 5, 4),
        "zeros": (2,),
    }


def test_open_sizes_can_be_said() -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    source = model_of(relu, inputs={"x": (FLOAT, ("n", 3))})

    assert onnx.load(source).outputs["y"].shape == (None, 3)
    assert onnx.load(source, shapes={"x": (8, None)}).outputs["y"].shape == (8, 3)


def test_transpositions_that_meet_are_one_or_none() -> None:
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], **pool),
        helper.make_node("MaxPool", ["p"], ["y"], **pool),
    ]

    model = onnx.load(model_of(*nodes, inputs={"x": (FLOAT, (1, 2, 8, 8))}))

    pools = [node for node in model.graph.nodes if node.op == "max_pool"]
    assert pools[1].inputs == (Port(pools[0].id),)


def test_a_builder_of_the_user_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder_table, "_TABLE", dict(builder_table.table()))

    @onnx.builder("com.example", "Scale")
    def scale(node: onnx.OnnxNode, inputs: Any, opset: int) -> Any:
        return af.multiply(inputs[0], node.attr("factor", 1.0) * opset)

    node = helper.make_node("Scale", ["x"], ["y"], domain="com.example", factor=2.0)
    source = model_of(node, inputs={"x": (FLOAT, (2,))}, imports=(helper.make_opsetid("com.example", 3),))

    found = results(onnx.load(source), {"x": np.array([1, 2], "float32")})

    assert found["y"].tolist() == [6, 12]


def test_functions_of_the_model_are_written_out() -> None:
    imports = [helper.make_opsetid("", 21)]
    twice = helper.make_function(
        "mine", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], imports
    )
    call = helper.make_node("Twice", ["x"], ["y"], domain="mine")
    source = model_of(call, inputs={"x": (FLOAT, (2,))}, imports=(helper.make_opsetid("mine", 1),))
    source.functions.append(twice)

    found = results(onnx.load(source), {"x": np.array([1, 2], "float32")})

    assert found["y"].tolist() == [2, 4]


def test_data_in_a_file_beside_the_model_is_read(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    proto.save(net(), path, save_as_external_data=True, location="weights", size_threshold=0)
    x = np.ones((1, 3, 7, 7), "float32")

    found = results(onnx.load(path), {"x": x})

    np.testing.assert_array_equal(found["y"], results(onnx.load(net()), {"x": x})["y"])
    assert "has data that lies in another file" in refused(path.read_bytes())


@pytest.mark.parametrize(
    ("op", "attributes", "low", "high"),
    [
        ("RandomNormalLike", {"mean": 1.0, "seed": 2.5}, -5, 7),
        ("RandomUniformLike", {"low": 2.0, "high": 3.0}, 2, 3),
        ("Bernoulli", {}, 0, 1),
        ("Multinomial", {"sample_size": 9}, 0, 999),
    ],
)
def test_random_numbers_differ_from_step_to_step(
    op: str, attributes: dict[str, Any], low: float, high: float
) -> None:
    draw = helper.make_node(op, ["x"], ["y"], None, None, None, **attributes)
    model = onnx.load(model_of(draw, inputs={"x": (FLOAT, (1, 1000))}))

    async def steps() -> tuple[Any, Any]:
        async with af.Session(model.graph, threads=0) as session:
            y, feeds = model.outputs["y"], {"x": np.full((1, 1000), 0.5, "float32")}
            return await session.run(y, feeds), await session.run(y, feeds)

    one, two = af.run(steps())
    assert (one != two).any()
    assert low <= one.min() < one.max() <= high


# ----------------------------------------------------------------------------------- errors


def refused(source: Any, **options: Any) -> str:
    with pytest.raises(OnnxError) as caught:
        onnx.load(source, **options)
    return str(caught.value)


def test_everything_that_cannot_be_read_is_listed_at_once() -> None:
    source = model_of(
        helper.make_node("NonMaxSuppression", ["x", "x"], ["a"], name="boxes"),
        helper.make_node("Relu", ["a"], ["b"], name="behind"),
        helper.make_node("StringSplit", ["text"], ["c", "d"], name="words"),
        helper.make_node("Selu", ["x"], ["e"], name="ok"),
        helper.make_node("RNN", ["x", "x", "x"], ["f"], name="cell", activations=["ThresholdedRelu"]),
        helper.make_node("ReduceSum", ["x", "axes"], ["y"], name="total"),
        inputs={"x": (FLOAT, (2, 3, 4)), "text": (TensorProto.STRING, (1,)), "axes": (INT64, (1,))},
    )

    assert refused(source) == (
        "the ONNX model 'small' needs 5 things that cannot be imported\n"
        "  input 'text': no tensor has the ONNX dtype STRING\n"
        "  node 'boxes' (NonMaxSuppression): there is no builder for it, opset 21\n"
        "  node 'words' (StringSplit): there is no builder for it, opset 21\n"
        "  node 'cell' (RNN): there is no activation ThresholdedRelu\n"
        "  node 'total' (ReduceSum): the value of input 1 must be known when the model is loaded\n"
        "  try:   make numbers of text before the model, and export it without the ops that do; "
        'write the missing ops: @onnx.builder("", "Op"); '
        "there are Relu, Sigmoid, Softplus, Softsign, Tanh; load(..., fixed={'axes': value})"
    )


def test_an_attribute_that_no_builder_knows_is_refused() -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"], broadcast=1, name="sum")
    source = model_of(node, inputs={"x": (FLOAT, (2,))}, opset=6)
    later = model_of(helper.make_node("Celu", ["x"], ["y"], name="c"), inputs={"x": (FLOAT, (2,))})
    later.graph.node[0].attribute.append(helper.make_attribute("beta", 2.0))

    assert onnx.load(source).outputs["y"].shape == (2,)  # what broadcast=1 said then holds anyway
    assert "beta" in refused(later)


def test_a_text_that_no_builder_knows_is_refused_with_those_it_does() -> None:
    pad = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], auto_pad="SAME", name="p")

    said = refused(model_of(pad, inputs={"x": (FLOAT, (1, 1, 4))}))

    assert "auto_pad must be one of NOTSET, SAME_UPPER, SAME_LOWER, VALID, got 'SAME'" in said


def test_a_builder_that_fails_is_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder_table, "_TABLE", dict(builder_table.table()))
    onnx.builder("", "Relu")(lambda node, inputs, opset: inputs[1])
    source = model_of(helper.make_node("Relu", ["x"], ["y"], name="r"), inputs={"x": (FLOAT, (2,))})

    with pytest.raises(OnnxError, match="the builder of Relu failed at node 'r': IndexError") as caught:
        onnx.load(source)

    assert isinstance(caught.value.__cause__, IndexError)


def test_shapes_that_do_not_fit_name_the_node() -> None:
    product = helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
    source = model_of(product, inputs={"x": (FLOAT, (2, 3))}, constants={"w": np.ones((4, 5), "float32")})

    assert "node 'dense' (MatMul): matmul needs equal inner" in refused(source)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fixed": {"z": 1}}, "load(..., fixed=...): the model has no input 'z'; it has 'x'"),
        ({"shapes": {"z": ()}}, "load(..., shapes=...): the model has no input 'z'; it has 'x'"),
        ({"shapes": {"x": (3, 3)}}, "input 'x': shapes must agree, got (2, 3) and (3, 3)"),
        ({"fixed": {"x": np.ones(2)}}, "input 'x': a fixed value must fit (2, 3) float32, got (2,) float64"),
        ({"trainable": ["w"]}, "load(..., trainable=...): the model has no initialiser 'w'"),
    ],
)
def test_names_and_shapes_that_the_model_does_not_have_are_refused(
    options: dict[str, Any], said: str
) -> None:
    source = model_of(helper.make_node("Relu", ["x"], ["y"]), inputs={"x": (FLOAT, (2, 3))})

    text = refused(source, **options)
    assert said in text
    assert "try:" in text
    assert "@onnx.builder" not in text  # no op is missing


def hinted(what: str, hint: str | None = None) -> str:
    return what if hint is None else f"{what}\n  try:   {hint}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"trainable": "w2"},
            hinted(
                "load(..., trainable=...) takes True, False or names of initialisers, got 'w2'",
                "trainable=['w2']",
            ),
        ),
        ({"trainable": 3}, "load(..., trainable=...) takes True, False or names of initialisers, got 3"),
        (
            {"trainable": None},
            "load(..., trainable=...) takes True, False or names of initialisers, got None",
        ),
        (
            {"fixed": "x"},
            hinted(
                "load(..., fixed=...) takes a value for each name of an input, got 'x'",
                "load(..., fixed={name: value})",
            ),
        ),
        (
            {"shapes": [(2, 3)]},
            hinted(
                "load(..., shapes=...) takes its sizes for each name of an input, got [(2, 3)]",
                "load(..., shapes={name: sizes})",
            ),
        ),
        (
            {"shapes": {"x": 2}},
            hinted(
                "load(..., shapes=...) takes a tuple of sizes, got 2 for 'x'",
                "load(..., shapes={'x': (1, None)})",
            ),
        ),
        (
            {"shapes": {"x": "ab"}},
            hinted(
                "load(..., shapes=...) takes a tuple of sizes, got 'ab' for 'x'",
                "load(..., shapes={'x': (1, None)})",
            ),
        ),
        ({"graph": 3}, "load(..., graph=...) takes an af.Graph, got 3"),
    ],
)
def test_arguments_of_a_wrong_kind_are_refused(options: dict[str, Any], said: str) -> None:
    source = model_of(helper.make_node("Relu", ["x"], ["y"]), inputs={"x": (FLOAT, (2, 3))})

    assert refused(source, **options) == said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shapes": {"x": (2.5, 3)}}, "a shape is a tuple of sizes"),
        (
            {"fixed": {"x": [[1.0], [2.0, 3.0]]}},
            "a fixed value must fit (2, 3) float32, got [[1.0], [2.0, 3.0]]",
        ),
        ({"fixed": {"x": "abc"}}, "a fixed value must fit (2, 3) float32, got ()"),
        ({"trainable": [3]}, "the model has no initialiser 3"),
        ({"trainable": ["w", 3]}, "the model has no initialiser 'w'"),
    ],
)
def test_values_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    source = model_of(helper.make_node("Relu", ["x"], ["y"]), inputs={"x": (FLOAT, (2, 3))})

    assert said in refused(source, **options)


@pytest.mark.parametrize("source", [3, None, 1.5, ["net.onnx"], object()])
def test_what_is_no_source_of_a_model_is_refused(source: Any) -> None:
    said = "a model is a path, the bytes of a file, or an onnx.ModelProto, got"

    assert refused(source).startswith(said)
    with pytest.raises(OnnxError, match=said):
        onnx.inputs_to_fix(source)


def test_an_input_of_text_says_what_to_do() -> None:
    source = model_of(
        helper.make_node("Relu", ["x"], ["y"]),
        inputs={"x": (FLOAT, (2,)), "text": (TensorProto.STRING, (1,))},
    )

    assert refused(source).endswith(
        "input 'text': no tensor has the ONNX dtype STRING\n"
        "  try:   make numbers of text before the model, and export it without the ops that do"
    )


def test_an_opset_of_the_future_is_refused() -> None:
    source = model_of(helper.make_node("Relu", ["x"], ["y"]), inputs={"x": (FLOAT, (2,))})
    source.opset_import[0].version = 999

    assert re.search(r"opsets 1 to \d+ are read, got 999|is broken", refused(source))


def test_files_that_are_no_models_are_refused_with_their_path(tmp_path: Path) -> None:
    whole = net().SerializeToString()
    broken = {"half": whole[: len(whole) // 2], "text": b"not a model at all", "empty": b""}
    for name, data in broken.items():
        (tmp_path / name).write_bytes(data)

    said = {name: refused(tmp_path / name) for name in broken}
    missing = refused(tmp_path / "missing")

    assert all(os.fspath(tmp_path / name) in text for name, text in said.items())
    assert "is no ONNX file, or a part of one" in said["half"]
    assert "is no ONNX file, or a part of one" in said["text"]
    assert "is broken" in said["empty"]
    assert "cannot be read" in missing
    assert "No such file" in missing


def test_a_model_that_the_checker_refuses_is_broken() -> None:
    source = model_of(helper.make_node("Relu", ["nowhere"], ["y"]), inputs={"x": (FLOAT, (2,))})

    assert refused(source).startswith("the ONNX model 'small' is broken: ")


@given(
    places=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 255)), max_size=3), kept=st.integers(0, 999)
)
def test_whatever_happens_to_a_file_is_told_in_one_kind_of_error(
    places: list[tuple[int, int]], kept: int
) -> None:
    data = bytearray(SMALL[: len(SMALL) * (kept + 1) // 1000])
    for place, byte in places:
        if data:
            data[place % len(data)] = byte

    try:
        outputs = list(onnx.load(bytes(data)).outputs)
    except OnnxError as error:
        outputs = [str(error)]  # nothing else is raised

    assert outputs
