"""Models in ONNX's format whose batch and time are open are read, and give what they give with known sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import OnnxError
from actorflow.interop import onnx

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
    async def once() -> Any:
        async with af.Session(model.graph, threads=0) as session:
            return await session.run(model.outputs["y"], {"x": x})

    return af.run(once())


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
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Tile", ["x", "s"], ["y"])]

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
    source = model_of(*build(), ["b", 2, "h", "w"], 4)
    source.opset_import[0].version = 18 if build in OPSET_18 else 17
    model = onnx.load(source)

    for shape in IMAGES:
        x = RNG.standard_normal(shape).astype("f4")
        known = onnx.load(source, shapes={"x": shape})
        (wanted,) = ReferenceEvaluator(source).run(None, {"x": x})
        np.testing.assert_allclose(run(model, x), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(run(known, x), wanted, rtol=1e-4, atol=1e-5)
