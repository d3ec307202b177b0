"""Models in ONNX's format whose batch and time are open are read, and give what they give with known sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import OnnxError
from actorflow.interop import onnx
from tests.support.sessions import run_step

proto = pytest.importorskip("onnx", reason="needs the package onnx: pip install 'actorflow[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402  behind the question whether it is there
from onnx.reference import ReferenceEvaluator  # noqa: E402

RNG = np.random.default_rng(0)


def model_of(nodes: list[Any], constants: dict[str, Any], shape: list[Any], rank: int) -> Any:
    graph = helper.make_graph(
        nodes,
        "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run(model: onnx.Imported, x: Any) -> Any:
    return run_step(model.graph, model.outputs["y"], {"x": x})


def recurrent(op: str, gates: int, **attributes: Any) -> Any:
    ways = 2 if attributes.get("direction") == "bidirectional" else 1
    constants = {
        "W": RNG.standard_normal((ways, gates * 5, 4)).astype("f4"),
        "R": RNG.standard_normal((ways, gates * 5, 5)).astype("f4"),
    }
    node = helper.make_node(op, ["x", "W", "R"], ["y"], hidden_size=5, **attributes)
    return [node], constants


POSITIONS = [
    helper.make_node("Shape", ["x"], ["t"], start=1, end=2),
    helper.make_node("Slice", ["pos", "z", "t", "z"], ["p"]),
    helper.make_node("Add", ["x", "p"], ["y"]),
]
POSITION_TABLE = {"pos": RNG.standard_normal((64, 4)).astype("f4"), "z": np.array([0])}


@pytest.mark.parametrize("time", [None, 7])
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_positions_are_cut_to_the_length(time: int | None, batch: int) -> None:
    model = onnx.load(model_of(POSITIONS, POSITION_TABLE, ["b", time or "t", 4], 3))
    x = RNG.standard_normal((batch, 7, 4)).astype("f4")

    np.testing.assert_array_equal(run(model, x), x + POSITION_TABLE["pos"][:7])


@pytest.mark.parametrize(
    ("op", "gates", "attributes"),
    [
        ("LSTM", 4, {}),
        ("GRU", 3, {"direction": "reverse"}),
        ("RNN", 1, {"direction": "bidirectional"}),
        ("LSTM", 4, {"direction": "bidirectional"}),
    ],
)
@pytest.mark.parametrize("shape", [[7, "b", 4], ["t", 2, 4], ["t", "b", 4]])
def test_recurrent_layers_of_open_sizes_equal_those_of_known_ones(
    op: str, gates: int, attributes: dict[str, Any], shape: list[Any]
) -> None:
    nodes, weights = recurrent(op, gates, **attributes)
    source = model_of(nodes, weights, shape, 4)
    model = onnx.load(source)

    for batch in (1, 2, 5) if shape[1] == "b" else (2,):
        x = RNG.standard_normal((7, batch, 4)).astype("f4")
        known = onnx.load(source, shapes={"x": x.shape})
        np.testing.assert_allclose(run(model, x), run(known, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("shape", [["b", 2, 6, 8], ["b", 2, "h", "w"]])
def test_images_of_open_sizes_are_resized_by_their_scales(mode: str, shape: list[Any]) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode)
    source = model_of([node], {"s": np.array([1, 1, 2, 1.5], np.float32)}, shape, 4)
    model = onnx.load(source)

    for batch in (1, 2, 5):
        x = RNG.standard_normal((batch, 2, 6, 8)).astype("f4")
        (wanted,) = ReferenceEvaluator(source).run(None, {"x": x})
        np.testing.assert_allclose(run(model, x), wanted, rtol=1e-4, atol=1e-5)


def test_where_a_value_is_needed_no_image_is_said_to_be_fixed() -> None:
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("ReduceSum", ["x", "s"], ["y"])]

    with pytest.raises(OnnxError) as caught:
        onnx.load(model_of(nodes, {}, ["b", 2], 2))

    assert "load(..., shapes={'x': sizes})" in str(caught.value)
    assert "fixed" not in str(caught.value)


def test_axes_of_open_sizes_are_flattened() -> None:
    node = helper.make_node("Flatten", ["x"], ["y"], axis=2)
    model = onnx.load(model_of([node], {}, ["b", 2, "t"], 2))
    x = RNG.standard_normal((3, 2, 4)).astype("f4")

    np.testing.assert_array_equal(run(model, x), x.reshape(6, 4))


def resizing_to_the_size_of_another() -> Any:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "two"], ["batch"]),
        helper.make_node("Slice", ["s", "two", "four"], ["size"]),
        helper.make_node("Mul", ["size", "two"], ["larger"]),
        helper.make_node("Concat", ["batch", "larger"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    return nodes, {"zero": np.array([0]), "two": np.array([2]), "four": np.array([4])}


def resizing_by_computed_scales() -> Any:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["old"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["old", "more"], ["new"]),
        helper.make_node("Div", ["new", "old"], ["scales"]),
        helper.make_node(
            "Resize", ["x", "", "scales"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric"
        ),
    ]
    return nodes, {"more": np.array([1, 1, 2, 1.5], np.float32)}


def resizing_not_larger() -> Any:
    node = helper.make_node(
        "Resize", ["x", "", "", "n"], ["y"], mode="linear", axes=[2, 3], keep_aspect_ratio_policy="not_larger"
    )
    return [node], {"n": np.array([9, 12])}


def cropping() -> Any:
    node = helper.make_node(
        "Resize",
        ["x", "roi", "", "n"],
        ["y"],
        mode="linear",
        axes=[2, 3],
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
    )
    return [node], {"n": np.array([3, 1]), "roi": np.array([0.1, 0.2, 0.9, 1.4], np.float32)}


OPSET_18 = [resizing_not_larger, cropping]
IMAGES = [(1, 2, 6, 8), (2, 2, 5, 3), (5, 2, 7, 4)]


@pytest.mark.parametrize(
    "build", [resizing_to_the_size_of_another, resizing_by_computed_scales, resizing_not_larger, cropping]
)
def test_images_are_resized_to_sizes_that_the_step_computes(build: Any) -> None:
    nodes, constants = build()
    source = model_of(nodes, constants, ["b", 2, "h", "w"], 4)
    source.opset_import[0].version = 18 if build in OPSET_18 else 17
    model = onnx.load(source)

    for shape in IMAGES:
        x = RNG.standard_normal(shape).astype("f4")
        known = onnx.load(source, shapes={"x": shape})
        (wanted,) = ReferenceEvaluator(source).run(None, {"x": x})
        np.testing.assert_allclose(run(model, x), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(run(known, x), wanted, rtol=1e-4, atol=1e-5)


def weights(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("f4")


N = helper.make_node
SIZES = [N("Shape", ["x"], ["s"]), N("Gather", ["s", "at"], ["t"])]
"""The sizes of x, and one of them as `t`: the axis says the constant `at`."""

OPEN: dict[str, tuple[list[Any], dict[str, Any], int]] = {
    "grid in zeros": ([N("GridSample", ["x", "g"], ["y"])], {}, 16),
    "grid to the border": (
        [N("GridSample", ["x", "g"], ["y"], mode="cubic", padding_mode="border")],
        {},
        20,
    ),
    "grid mirrored": (
        [N("GridSample", ["x", "g"], ["y"], mode="nearest", padding_mode="reflection", align_corners=1)],
        {},
        16,
    ),
    "transposed, SAME_UPPER": (
        [N("ConvTranspose", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2])],
        {"w": weights(4, 3, 3, 3)},
        17,
    ),
    "transposed, SAME_LOWER": (
        [N("ConvTranspose", ["x", "w"], ["y"], auto_pad="SAME_LOWER", strides=[2, 3])],
        {"w": weights(4, 3, 3, 4)},
        17,
    ),
    "transposed, to a shape": (
        [N("ConvTranspose", ["x", "w"], ["y"], output_shape=[11, 12], strides=[2, 2])],
        {"w": weights(4, 3, 3, 3)},
        17,
    ),
    "convolved, SAME_LOWER": (
        [N("Conv", ["x", "w"], ["y"], auto_pad="SAME_LOWER", strides=[2, 2])],
        {"w": weights(3, 4, 3, 4)},
        17,
    ),
    "largest, SAME_LOWER": (
        [N("MaxPool", ["x"], ["y"], auto_pad="SAME_LOWER", kernel_shape=[2, 3], strides=[2, 2])],
        {},
        17,
    ),
    "means, SAME_LOWER": (
        [N("AveragePool", ["x"], ["y"], auto_pad="SAME_LOWER", kernel_shape=[3, 3])],
        {},
        17,
    ),
    "largest and where": (
        [N("MaxPool", ["x"], ["z", "p"], kernel_shape=[2, 2]), N("Cast", ["p"], ["y"], to=TensorProto.FLOAT)],
        {},
        17,
    ),
    "groups": (
        [N("GroupNormalization", ["x", "c", "b"], ["y"], num_groups=2)],
        {"c": weights(4), "b": weights(4)},
        21,
    ),
    "uneven parts": ([N("Split", ["x"], ["p", "q", "y"], axis=3, num_outputs=3)], {}, 18),
    "parts of computed lengths": (
        [
            *SIZES,
            N("Div", ["t", "two"], ["half"]),
            N("Sub", ["t", "half"], ["rest"]),
            N("Concat", ["half", "rest"], ["lengths"], axis=0),
            N("Split", ["x", "lengths"], ["p", "y"], axis=2),
        ],
        {"at": np.array([2]), "two": np.array([2])},
        17,
    ),
    "margins that make sizes even": (
        [
            *SIZES,
            N("Mod", ["t", "two"], ["odd"]),
            N("Concat", ["none", "odd", "one"], ["pads"], axis=0),
            N("Pad", ["x", "pads"], ["y"], mode="reflect"),
        ],
        {"at": np.array([2]), "two": np.array([2]), "none": np.zeros(6, "i8"), "one": np.array([1])},
        17,
    ),
    "margins of a number": (
        [
            *SIZES,
            N("Concat", ["none", "t", "one"], ["pads"], axis=0),
            N("Pad", ["x", "pads", "seven"], ["y"]),
        ],
        {"at": np.array([3]), "one": np.array([1]), "none": np.zeros(6, "i8"), "seven": np.float32(7)},
        17,
    ),
    "repeated as often as its size": (
        [*SIZES, N("Concat", ["ones", "t"], ["times"], axis=0), N("Tile", ["x", "times"], ["y"])],
        {"at": np.array([2]), "ones": np.array([1, 1, 2])},
        17,
    ),
    "one of as many as there are": (
        [
            *SIZES,
            N("ArgMax", ["x"], ["best"], axis=3, keepdims=0, select_last_index=1),
            N("OneHot", ["best", "t", "values"], ["y"]),
        ],
        {"at": np.array([3]), "values": np.array([0, 1], np.float32)},
        17,
    ),
    "the best half": (
        [*SIZES, N("Div", ["t", "two"], ["k"]), N("TopK", ["x", "k"], ["y", "places"], axis=2)],
        {"at": np.array([2]), "two": np.array([2])},
        17,
    ),
    "pixels of channels": ([N("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD")], {}, 17),
    "softmax over the rest": ([N("Softmax", ["x"], ["y"], axis=2)], {}, 11),
    "hardmax": ([N("Hardmax", ["x"], ["y"], axis=2)], {}, 17),
    "triangles": (
        [*SIZES, N("Neg", ["t"], ["k"]), N("Squeeze", ["k"], ["o"]), N("Trilu", ["x", "o"], ["y"])],
        {"at": np.array([2])},
        17,
    ),
}


UNLIKE_THE_REFERENCE = (
    "grid to the border",
    "transposed, to a shape",
    "largest, SAME_LOWER",
    "largest and where",
    "one of as many as there are",
    "softmax over the rest",
)
"""Cases in which onnx's own evaluator fails or is wrong; onnxruntime gives what is given here."""


@pytest.mark.parametrize("case", OPEN)
def test_what_needs_sizes_takes_them_in_the_step(case: str) -> None:
    nodes, constants, opset = OPEN[case]
    source = model_of(nodes, constants, ["b", 4, "h", "w"], 4)
    source.opset_import[0].version = opset
    if case.startswith("grid"):
        source.graph.input.append(helper.make_tensor_value_info("g", TensorProto.FLOAT, ["b", "r", "c", 2]))
    model = onnx.load(source)

    for batch, height, width in ((1, 6, 8), (2, 5, 7), (5, 7, 5)):
        x = weights(batch, 4, height, width)
        feeds = {"x": x, **({"g": weights(batch, 3, 5, 2)} if case.startswith("grid") else {})}
        known = onnx.load(source, shapes={name: array.shape for name, array in feeds.items()})
        got, wanted = fed(model, feeds), fed(known, feeds)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        if case not in UNLIKE_THE_REFERENCE:
            (theirs,) = ReferenceEvaluator(source).run(["y"], feeds)
            np.testing.assert_allclose(got, theirs, rtol=1e-4, atol=1e-4)


def fed(model: onnx.Imported, feeds: dict[str, Any]) -> Any:
    async def once() -> Any:
        async with af.Session(model.graph, threads=0) as session:
            return await session.run(model.outputs["y"], feeds)

    return af.run(once())


def test_cubic_weights_are_those_of_the_place_also_beyond_the_border() -> None:
    """As in onnxruntime and torch, whose neighbours are kept within the image, and not the place."""
    node = helper.make_node(
        "GridSample", ["x", "g"], ["y"], mode="cubic", padding_mode="border", align_corners=1
    )
    source = model_of([node], {}, ["b", 1, "h", "w"], 4)
    source.opset_import[0].version = 20
    source.graph.input.append(helper.make_tensor_value_info("g", TensorProto.FLOAT, ["b", "r", "c", 2]))
    line, places = weights(5), np.array([-0.4, 1.3, 4.25, 4.9], np.float32)
    grid = np.stack([places / 2 - 1, np.zeros(4, np.float32)], -1)[None, None]

    got = fed(onnx.load(source), {"x": line.reshape(1, 1, 1, 5), "g": grid})

    def share(t: float, a: float = -0.75) -> float:
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        return near if t <= 1 else ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    wanted = [
        sum(
            share(abs(p - k)) * line[min(max(k, 0), 4)]
            for k in range(int(np.floor(p)) - 1, int(np.floor(p)) + 3)
        )
        for p in places
    ]
    np.testing.assert_allclose(got.ravel(), wanted, rtol=1e-4, atol=1e-5)
