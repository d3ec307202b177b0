"""What layers compute, what they are called, which variables they have, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from tests.nn.naming import names
from tests.support.arrays import drawn
from tests.support.sessions import run_step, run_steps


def x32(*shape: int | None, dtype: str = "float32") -> af.Tensor:
    return af.placeholder(dtype, shape)


# ------------------------------------------------------------------------------------- dense


@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 3, 5), (0, 3, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("open_sizes", [False, True])
def test_dense_is_a_product_over_the_last_axis(shape: tuple[int, ...], open_sizes: bool) -> None:
    with af.Graph() as graph:
        dense = af.nn.Dense(5, 3, biases=af.init.normal(0.0, 1.0))
        x = x32(*((None,) * (len(shape) - 1) if open_sizes else shape[:-1]), 5)
        y = dense(x)
        (grad,) = af.gradients(y, dense.w)
    given = drawn(*shape)

    value, w, b, slope = run_step(graph, [y, dense.w, dense.b, grad], {x: given})

    assert y.shape == (*((None,) * (len(shape) - 1) if open_sizes else shape[:-1]), 3)
    np.testing.assert_allclose(value, given @ w + b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        slope, np.repeat(given.reshape(-1, 5).sum(0)[:, None], 3, 1), rtol=1e-4, atol=1e-5
    )


def test_calls_of_a_layer_share_its_variables() -> None:
    with af.Graph() as graph:
        dense = af.nn.Dense(3, 2)
        a, b = x32(None, 3), x32(None, 3)
        one, other = dense(a), dense(b)
        (grad,) = af.gradients(af.sum(one) + af.sum(other), dense.w)
    given = drawn(4, 3)

    first, second, slope = run_step(graph, [one, other, grad], {a: given, b: given})

    assert names(dense.variables) == ["dense/w", "dense/b"] == list(graph.resources)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(slope, np.repeat(2 * given.sum(0)[:, None], 2, 1), rtol=1e-5)


def test_names_are_free_unless_they_are_given() -> None:
    with af.Graph():
        first, second, own = (
            af.nn.Dense(3, 2),
            af.nn.Dense(3, 2, bias=False),
            af.nn.Dense(3, 2, name="logits"),
        )
        with af.name_scope("tower"):
            third = af.nn.Dense(3, 2)
            node = third(x32(None, 3)).node.name
        outside = third(x32(None, 3)).node.name
        dropout = af.nn.Dropout(0.5)
        with pytest.raises(af.errors.GraphError, match="'logits/w' is taken"):
            af.nn.Dense(3, 2, name="logits")

    assert [layer.name for layer in (first, second, own, third)] == [
        "dense",
        "dense_1",
        "logits",
        "tower/dense",
    ]
    assert names(second.variables) == ["dense_1/w"]
    assert (node, outside) == ("tower/dense/add", "dense/add")
    assert repr(own) == "<Dense logits: w (3, 2) float32, b (2,) float32>"
    assert repr(dropout) == "<Dropout dropout: no variables>"


def test_a_layer_of_ones_own() -> None:
    class Scale(af.nn.Layer):
        def __init__(self, *, name: str | None = None) -> None:
            super().__init__("scale", name)
            self.factor = self.variable("factor", af.init.constant(3.0)(()))

        def __call__(self, x: Any) -> af.Tensor:
            with self.scope():
                found: af.Tensor = x * self.factor
                return found

    with af.Graph() as graph:
        network = af.nn.Sequential([Scale(), Scale(name="second"), lambda x: x + 1])
        y = network(af.constant(2.0))

    assert run_step(graph, y) == 19
    assert names(network.variables) == ["scale/factor", "second/factor"]


# ------------------------------------------------------------------------------------- others


def test_conv_is_the_op_and_a_bias() -> None:
    with af.Graph() as graph:
        conv = af.nn.Conv(2, 4, (3, 1), strides=2, padding="VALID", biases=af.init.normal(0.0, 1.0))
        x = x32(None, 7, 6, 2)
        y = conv(x)
        wanted = af.nn.conv2d(x, conv.w, 2, "VALID") + conv.b

    value, told = run_step(graph, [y, wanted], {x: drawn(3, 7, 6, 2)})

    assert y.shape == (None, 3, 3, 4)
    assert conv.w.shape == (3, 1, 2, 4)
    np.testing.assert_array_equal(value, told)


@pytest.mark.parametrize(("rank", "verb"), [(1, af.nn.conv1d), (2, af.nn.conv2d), (3, af.nn.conv3d)])
def test_conv_slides_along_as_many_axes_as_its_size_has(rank: int, verb: Any) -> None:
    with af.Graph() as graph:
        conv = af.nn.Conv(4, 6, (2,) * rank, padding=1, dilations=2, groups=2, bias=False)
        x = x32(None, *(5,) * rank, 4)
        wanted = verb(x, conv.w, 1, 1, 2, 2)
        y = conv(x)

    value, told = run_step(graph, [y, wanted], {x: drawn(2, *(5,) * rank, 4)})

    assert conv.w.shape == (*(2,) * rank, 2, 6)
    assert value.shape == (2, *(5,) * rank, 6)
    np.testing.assert_array_equal(value, told)


def test_an_embedding_gives_rows_and_trains_them() -> None:
    with af.Graph() as graph:
        words = af.nn.Embedding(6, 3, padding_id=0)
        ids = af.placeholder("int64", (None, None))
        rows = words(ids)
        update = af.minimize(af.sum(rows), af.optim.sgd(1.0))
    given = np.array([[1, 0], [5, 1]])

    before, found, _, after = (
        step
        for step in run_steps(
            graph, (words.table, {}), (rows, {ids: given}), (update, {ids: given}), (words.table, {})
        )
    )

    assert rows.shape == (None, None, 3)
    np.testing.assert_array_equal(found, np.where((given == 0)[..., None], 0, before[given]))
    np.testing.assert_allclose(before - after, np.array([0, 2, 0, 0, 0, 1])[:, None] * np.ones(3), atol=1e-6)


def test_normalisations_begin_without_scale_and_offset() -> None:
    given = drawn(4, 5, 6)
    with af.Graph() as graph:
        x = x32(None, 5, 6)
        pairs = [
            (af.nn.LayerNorm(6)(x), af.nn.layer_norm(x)),
            (af.nn.RMSNorm(6)(x), af.nn.rms_norm(x)),
            (af.nn.GroupNorm(6, 3)(x), af.nn.group_norm(x, 3)),
            (af.nn.BatchNorm(6)(x, training=True), af.nn.batch_norm(x)[0]),
        ]
    values = run_step(graph, [t for pair in pairs for t in pair], {x: given})

    for made, told in zip(values[::2], values[1::2], strict=True):
        np.testing.assert_allclose(made, told, rtol=1e-5, atol=1e-6)


def test_parts_of_a_normalisation_may_be_left_out() -> None:
    with af.Graph():
        assert names(af.nn.LayerNorm(6, offset=False).variables) == ["layer_norm/scale"]
        assert names(af.nn.LayerNorm(6, scale=False).variables) == ["layer_norm_1/offset"]
        assert names(af.nn.RMSNorm(6, scale=False).variables) == []


def test_dropout_works_in_training_alone() -> None:
    with af.Graph() as graph:
        dropout, x = af.nn.Dropout(0.5, seed=1), x32(None, 100)
        y = dropout(x, training=True)

        assert dropout(x, training=False) is x
    value = run_step(graph, y, {x: drawn(10, 100) * 0 + 1})

    assert set(np.unique(value)) == {0, 2}


def test_flatten_keeps_the_batch() -> None:
    with af.Graph() as graph:
        x = x32(None, 2, 3)
        y = af.nn.Flatten()(x)

    assert y.shape == (None, 6)
    assert run_step(graph, y, {x: drawn(0, 2, 3)}).shape == (0, 6)


def attended(x: np.ndarray, context: np.ndarray, hidden: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """Two heads of two, one after the other."""
    wq, bq, wk, bk, wv, bv, wo, bo = (w.astype("float64") for w in weights)
    q, k, v = x @ wq + bq, context @ wk + bk, context @ wv + bv
    heads = []
    for part in (slice(0, 2), slice(2, 4)):
        scores = q[..., part] @ np.swapaxes(k[..., part], -1, -2) / np.sqrt(2) + hidden
        e = np.exp(scores)
        heads.append(e / e.sum(-1, keepdims=True) @ v[..., part])
    found: np.ndarray = np.concatenate(heads, -1) @ wo + bo
    return found


@pytest.mark.parametrize("open_sizes", [False, True])
def test_attention_of_several_heads(open_sizes: bool) -> None:
    given, context = drawn(2, 3, 4), drawn(2, 5, 4)
    causal = np.where(np.tri(3, dtype=bool), 0, -np.inf)
    with af.Graph() as graph:
        layer = af.nn.MultiHeadAttention(4, 2)
        x, y = (x32(None, None if open_sizes else a.shape[1], 4) for a in (given, context))
        own = layer(x, is_causal=True, training=False)
        other = layer(x, y, training=True)
        for variable in layer.variables:
            assert variable.name.startswith("attention/")

    one, two, *weights = run_step(graph, [own, other, *layer.variables], {x: given, y: context})

    assert names(layer.variables)[:2] == ["attention/query/w", "attention/query/b"]
    assert len(weights) == 8
    np.testing.assert_allclose(one, attended(given, given, causal, weights), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(two, attended(given, context, np.zeros(()), weights), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_layers_of_another_dtype(dtype: str) -> None:
    with af.Graph() as graph:
        norm = af.nn.BatchNorm(8, dtype=dtype)
        network = af.nn.Sequential(
            [
                af.nn.Conv(2, 8, (3, 3), dtype=dtype),
                norm,
                af.nn.relu,
                af.nn.Flatten(),
                af.nn.Dense(128, 4, dtype=dtype),
            ]
        )
        x = x32(None, 4, 4, 2, dtype=dtype)
        y = network(x, training=True)
    given = drawn(3, 4, 4, 2)

    value = run_step(graph, y, {x: given.astype(x.dtype)})

    assert value.dtype == x.dtype
    assert np.isfinite(value.astype("float64")).all()
    assert norm.moving_mean.dtype.name == ("float64" if dtype == "float64" else "float32")


# --------------------------------------------------------------------------------- sequential


def test_sequential_hands_training_on_to_those_that_take_it() -> None:
    told: list[Any] = []

    def spy(x: af.Tensor, *, training: bool) -> af.Tensor:
        told.append(training)
        return x

    def default(x: af.Tensor, training: bool = False) -> af.Tensor:
        told.append(training)
        return x

    with af.Graph():
        inner = af.nn.Sequential([spy, af.nn.relu])
        outer = af.nn.Sequential([inner, default, af.nn.Dense(3, 3)])
        outer(x32(None, 3), training=True)
        af.nn.Sequential([default])(x32(None, 3))
        with pytest.raises(
            af.errors.SpecError, match="needs to know whether it trains, for 'spy' inside it does"
        ):
            outer(x32(None, 3))

    assert told == [True, True, False]


def test_a_layer_that_comes_twice_is_listed_once() -> None:
    with af.Graph():
        dense = af.nn.Dense(3, 3)
        network = af.nn.Sequential([dense, af.tanh, dense])
        network(x32(None, 3))

    assert network.variables == dense.variables


# ------------------------------------------------------------------------------------ misuse


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: af.nn.Dense(64, 10, name="logits")(x32(None, 32)), r"layer 'logits' \(Dense, made at .*test_layers.py:\d+\) takes x \(…, 64\) float32, got \(None, 32\) float32"),
        (lambda: af.nn.Dense(64, 10)(x32(None, 64, dtype="float64")), r'got \(None, 64\) float64\n.*\n  try:   convert x with af.cast, or make the layer with dtype="float64"'),
        (lambda: af.nn.Dense(64, 10)(x32()), r"takes x \(…, 64\) float32, got \(\) float32"),
        (lambda: af.nn.Dense(64, 10)(af.placeholder("float32", None)), "needs an x of known rank"),
        (lambda: af.nn.Dense(64, 0), r"layer 'dense' \(Dense, .*\) needs a positive integer for outputs, got 0"),
        (lambda: af.nn.Dense(64, 2.5), "needs a positive integer for outputs, got 2.5"),  # type: ignore[arg-type]
        (lambda: af.nn.Dense(64, 10, dtype="int32"), "needs a floating dtype, got int32"),
        (lambda: af.nn.Dense(64, 10, dtype="float8"), "needs a floating dtype: no tensor has dtype 'float8'"),
        (lambda: af.nn.Conv(3, 8, (3, 3))(x32(None, 8, 8, 4)), r"layer 'conv' .* takes x \(…, None, None, None, 3\) float32, got \(None, 8, 8, 4\)"),
        (lambda: af.nn.Conv(3, 8, (3, 3))(x32(8, 8, 3)), r"got \(8, 8, 3\) float32"),
        (lambda: af.nn.Conv(3, 8, 3), "needs a size of 1 or 2 or 3 axes, got 3"),  # type: ignore[arg-type]
        (lambda: af.nn.Conv(3, 8, (3, 3), groups=2), "needs inputs and outputs that 2 groups part evenly, got 3 and 8"),
        (lambda: af.nn.Conv(3, 8, (3, 0)), r"positive integer for size\[1\], got 0"),
        (lambda: af.nn.BatchNorm(8)(x32(None, 7), training=True), r"layer 'batch_norm' .* takes x \(…, 8\) float32, got \(None, 7\) float32"),
        (lambda: af.nn.BatchNorm(8, decay=1.0), r"needs a decay in \[0, 1\), got 1.0"),
        (lambda: af.nn.GroupNorm(8, 3), "needs groups that divide its 8 channels evenly, got 3"),
        (lambda: af.nn.MultiHeadAttention(8, 3), "needs heads that divide its depth 8 evenly, got 3"),
        (lambda: af.nn.MultiHeadAttention(8, 2)(x32(8), training=True), r"takes x \(…, None, 8\) float32, got \(8,\)"),
        (lambda: af.nn.Embedding(9, 2)(x32(3)), r"takes integers, the numbers of its rows, got \(3,\) float32"),
        (lambda: af.nn.Dropout(1.0), r"layer 'dropout' .* needs a rate in \[0, 1\), got 1.0"),
        (lambda: af.nn.Flatten()(x32(3)), "takes x of at least two axes"),
        (lambda: af.nn.Sequential([3]), "takes layers and functions, got 3"),  # type: ignore[list-item]
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_users_line(build: Any, message: str) -> None:
    with af.Graph(), pytest.raises(af.errors.SpecError, match=message) as caught:
        build()

    assert caught.value.where is not None
    assert "test_layers.py:" in (caught.value.where.defined_at or "")


def test_training_must_be_said() -> None:
    with af.Graph():
        norm, dropout = af.nn.BatchNorm(3), af.nn.Dropout(0.5)
        for layer in (norm, dropout):
            with pytest.raises(TypeError, match="training"):
                layer(x32(None, 3))  # type: ignore[call-arg]
