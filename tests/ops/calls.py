"""A valid call of every verb: arguments by name, those that have no default.

Tensors are placeholders, made when the call is; `F(2, 3)` is one of float32, `I` of int32, `B` of
bytes, `L` of bool. A verb that is missing here fails `test_arguments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import actorflow.ops as af
from actorflow.values.spec import spec


@dataclass(frozen=True)
class Fed:
    """A placeholder that is still to be made."""

    dtype: str
    shape: tuple[int, ...]


# fmt: off
def F(*shape: int) -> Fed: return Fed("float32", shape)
def I(*shape: int) -> Fed: return Fed("int32", shape)  # noqa: E743
def B(*shape: int) -> Fed: return Fed("bytes", shape)
def L(*shape: int) -> Fed: return Fed("bool", shape)
# fmt: on


def made(value: Any) -> Any:
    """`value` with placeholders for what is fed, in the current graph."""
    if isinstance(value, Fed):
        return af.placeholder(value.dtype, value.shape)
    if isinstance(value, list):
        return [made(v) for v in value]
    if isinstance(value, Declared):
        return af.actor(Declared)
    if isinstance(value, Variable):
        return af.Variable([1.0, 2.0], trainable=True)
    return value


class Variable:
    """A variable that is still to be made."""


class Declared:
    """An actor of the user that is still to be declared."""


def _all(names: str, **arguments: Any) -> dict[str, Mapping[str, Any]]:
    return dict.fromkeys(names.split(), arguments)


_IMAGES = F(2, 4, 4, 2)

CALLS: Mapping[str, Mapping[str, Any]] = {
    # one tensor
    **_all(
        "abs acos acosh angle asin asinh atan atanh cbrt ceil celu check_numerics conj cos cosh"
        " deg2rad digamma elu erf erfc erfinv exp exp2 expm1 floor gelu hardsigmoid hardswish hardtanh"
        " identity imag isfinite isinf isnan leaky_relu lgamma log log10 log1p log2 log_sigmoid"
        " mish nan_to_num negative ones_like positive rad2deg rank real reciprocal relu relu6 round rsqrt"
        " selu shape sigmoid sign signbit silu sin sinc sinh size softplus softsign sqrt square"
        " stop_gradient tan tanh trunc unique_all unique_counts unique_inverse unique_values zeros_like",
        x=F(2, 3),
    ),
    **_all(
        "all any argmax argmin argsort argwhere as_bytes batch_norm count count_nonzero"
        " diag_embed diagonal diff encode_raw flatten flip"
        " l2_normalise layer_norm local_response_normalisation log_softmax logsumexp matrix_norm"
        " matrix_rank matrix_trace matrix_transpose max mean median min nonzero normalise pinv prod qr"
        " random_shuffle rms_norm softmax sort squeeze std sum svd svdvals transpose tril triu unstack"
        " var vector_norm",
        x=F(2, 3),
    ),
    **_all("cumulative_max cumulative_min cumulative_prod cumulative_sum", x=F(3)),
    "clip": {"x": F(2), "min": 0.0},
    **_all("cholesky det eigh eigvalsh inv matrix_exp slogdet", x=F(3, 3)),
    **_all("bitwise_invert bincount invert_permutation", x=I(3)),
    **_all(
        "bytes_length bytes_lower bytes_slice bytes_strip bytes_upper decode_base64 encode_base64 to_number",
        x=B(2),
    ),
    **_all("avg_pool global_avg_pool global_max_pool lp_pool max_pool max_pool_places", x=_IMAGES),
    "histogram": {"x": F(5)},
    "instance_norm": {"x": _IMAGES},
    "logical_not": {"x": L(2)},
    "resize": {"x": _IMAGES, "size": (8, 8)},
    "trapezoid": {"y": F(2, 3)},
    # two or three that mix
    **_all(
        "absolute_difference add copysign cosine_similarity divide divide_no_nan equal floor_divide fmod"
        " greater greater_equal hypot kron less less_equal logaddexp maximum minimum multiply"
        " multiply_no_nan nextafter not_equal pow remainder squared_difference subtract vecdot"
        " linear_recurrence",
        a=F(2, 3),
        b=F(2, 3),
    ),
    **_all("bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor", a=I(2), b=I(2)),
    **_all("logical_and logical_or logical_xor", a=L(2), b=L(2)),
    **_all("matmul lstsq solve triangular_solve tensordot", a=F(3, 3), b=F(3, 3)),
    **_all("cross outer", a=F(3), b=F(3)),
    **_all("hinge_loss huber_loss smooth_l1_loss", predictions=F(2, 3), labels=F(2, 3)),
    **_all("cosine_embedding_loss margin_ranking_loss", a=F(2, 3), b=F(2, 3), labels=F(2, 1)),
    "margin_ranking_loss": {"a": F(2), "b": F(2), "labels": F(2)},
    "cosine_embedding_loss": {"a": F(2, 3), "b": F(2, 3), "labels": F(2)},
    "atan2": {"y": F(2), "x": F(2)},
    "lerp": {"a": F(2), "b": F(2), "t": 0.5},
    "where": {"condition": L(2), "a": F(2), "b": F(2)},
    "cholesky_solve": {"factor": F(3, 3), "b": F(3, 1)},
    **_all("broadcast_like reshape_like sum_to", x=F(2, 3), like=F(2, 3)),
    "complex": {"real": F(2), "imag": F(2)},
    # losses
    "binary_cross_entropy": {"probabilities": F(2), "labels": F(2)},
    "ctc_loss": {"logits": F(2, 5, 3), "labels": I(2, 2), "logit_lengths": [5, 5], "label_lengths": [2, 1]},
    "gaussian_nll": {"means": F(2), "labels": F(2), "variances": F(2)},
    "kl_divergence": {"log_predictions": F(2, 3), "labels": F(2, 3)},
    "poisson_nll": {"log_rates": F(2), "counts": F(2)},
    "sigmoid_cross_entropy": {"logits": F(2), "labels": F(2)},
    "softmax_cross_entropy": {"logits": F(2, 3), "labels": F(2, 3)},
    "triplet_loss": {"anchors": F(2, 3), "positives": F(2, 3), "negatives": F(2, 3)},
    "weighted_mean": {"values": F(2, 3), "weights": F(2, 3)},
    # arguments beside tensors
    **_all("adaptive_avg_pool adaptive_max_pool adaptive_max_pool_places extract_patches", x=_IMAGES, size=2),
    **_all("alpha_dropout dropout", x=F(2), rate=0.5),
    **_all("conv1d", x=F(2, 4, 2), w=F(3, 2, 2)),
    **_all("conv2d conv2d_transpose depthwise_conv2d", x=_IMAGES, w=F(3, 3, 2, 2)),
    **_all("conv3d conv3d_transpose", x=F(2, 4, 4, 4, 2), w=F(3, 3, 3, 2, 2)),
    "conv1d_transpose": {"x": F(2, 4, 2), "w": F(3, 2, 2)},
    "separable_conv2d": {"x": _IMAGES, "depthwise": F(3, 3, 2, 1), "pointwise": F(1, 1, 2, 3)},
    **_all("depth_to_space", x=F(1, 2, 2, 4), block=2),
    "space_to_depth": {"x": F(1, 2, 2, 1), "block": 2},
    "batch_to_space": {"x": F(4, 2, 2, 1), "block": (2, 2), "crops": ((0, 0), (0, 0))},
    "space_to_batch": {"x": F(1, 2, 2, 1), "block": (2, 2), "paddings": ((0, 0), (0, 0))},
    "arange": {"start": 3},
    "batch_norm_with": {"x": F(2, 3), "mean": F(3), "variance": F(3)},
    "boolean_mask": {"x": F(2, 3), "mask": L(2)},
    "broadcast_to": {"x": F(2, 3), "shape": (2, 3)},
    "bytes_join": {"values": [B(2), B(2)]},
    "bytes_split": {"x": B(2), "count": 2},
    "cast": {"x": F(2), "dtype": "float64"},
    "concat": {"values": [F(2, 3), F(2, 3)], "axis": 0},
    "constant": {"value": 1.0},
    "decode_raw": {"x": B(2), "dtype": "uint8"},
    "decode_utf8": {"x": B(2), "length": 3},
    "dynamic_partition": {"x": F(3, 2), "partitions": I(3), "count": 2},
    "dynamic_stitch": {"indices": [I(2), I(2)], "data": [F(2), F(2)]},
    "embedding_bag": {"params": F(5, 2), "ids": I(4), "segments": I(4), "num_segments": 2},
    "embedding_lookup": {"params": [F(5, 2)], "ids": I(4)},
    "ensure_shape": {"x": F(2), "shape": (2,)},
    "expand_dims": {"x": F(2), "axis": 0},
    "eye": {"rows": 2},
    "full": {"shape": (2,), "value": 1.0},
    "full_like": {"x": F(2), "value": 1.0},
    "gather": {"params": F(2, 3), "indices": I(2)},
    "gather_nd": {"x": F(2, 3), "indices": I(2, 1)},
    "group_norm": {"x": _IMAGES, "groups": 2},
    "hash_bucket": {"x": B(2), "buckets": 3},
    "in_top_k": {"predictions": F(2, 3), "targets": I(2), "k": 1},
    "linspace": {"start": 0.0, "stop": 1.0, "num": 3},
    "matrix_band_part": {"x": F(3, 3), "lower": 0, "upper": 0},
    "matrix_power": {"x": F(3, 3), "n": 2},
    "max_unpool": {"x": F(2, 2, 2, 2), "places": I(2, 2, 2, 2), "size": (4, 4)},
    "moveaxis": {"x": F(2, 3), "source": 0, "destination": 1},
    "one_hot": {"indices": I(2), "depth": 3},
    "ones": {"shape": (2,)},
    "pad": {"x": F(2), "paddings": 1},
    "parse_csv": {"x": B(2), "dtypes": ["int32"]},
    "parse_example": {"x": B(2), "features": {"a": ("int64", ())}},
    "placeholder": {"dtype": "float32"},
    "polygamma": {"n": 1, "x": F(2)},
    "put_along_axis": {"x": F(3), "indices": I(2), "updates": F(2)},
    "quantile": {"x": F(3), "q": 0.5},
    "random_bernoulli": {"p": F(2)},
    "random_categorical": {"logits": F(2, 3)},
    **_all("random_exponential random_normal random_truncated_normal random_uniform", shape=(2,)),
    "random_integers": {"low": 0, "high": 3},
    "random_permutation": {"n": 3},
    "regex_match": {"x": B(2), "pattern": b"a"},
    "regex_replace": {"x": B(2), "pattern": b"a", "replacement": b"b"},
    "repeat": {"x": F(2), "repeats": 2},
    "reshape": {"x": F(2, 3), "shape": (3, 2)},
    "reverse_sequence": {"x": F(2, 3), "lengths": [1, 2]},
    "roll": {"x": F(3), "shift": 1},
    "scaled_dot_product_attention": {"q": F(2, 3, 4), "k": F(2, 3, 4), "v": F(2, 3, 4)},
    **_all("scatter_add scatter_max scatter_min scatter_update", x=F(3), indices=I(2), updates=F(2)),
    **_all(
        "scatter_nd_add scatter_nd_max scatter_nd_min scatter_nd_update",
        x=F(3),
        indices=I(2, 1),
        updates=F(2),
    ),
    "scatter_nd": {"indices": I(2, 1), "updates": F(2), "shape": (3,)},
    "searchsorted": {"x1": F(3), "x2": F(2)},
    **_all("segment_max segment_mean segment_min segment_prod segment_sum", x=F(3), ids=I(3)),
    **_all(
        "unsorted_segment_max unsorted_segment_mean unsorted_segment_min unsorted_segment_prod"
        " unsorted_segment_sum",
        x=F(3),
        ids=I(3),
        num_segments=2,
    ),
    "select": {"conditions": [L(2)], "choices": [F(2)]},
    "sequence_mask": {"lengths": [1, 2]},
    "slice": {"x": F(2), "index": 0},
    "slice_update": {"x": F(2), "index": 0, "part": 1.0},
    "split": {"x": F(4), "parts": 2},
    "stack": {"values": [F(2), F(2)]},
    "swapaxes": {"x": F(2, 3), "axis1": 0, "axis2": 1},
    "take_along_axis": {"x": F(3), "indices": I(2)},
    "threshold": {"x": F(2), "limit": 0.0, "value": 1.0},
    "tile": {"x": F(2), "repetitions": 2},
    "topk": {"x": F(3), "k": 2},
    "zeros": {"shape": (2,)},
    # those with as many tensors as are given, and those of gradients
    "broadcast_arrays": {"*xs": [F(2, 1), F(3)]},
    "meshgrid": {"*xs": [F(2), F(3)]},
    "einsum": {"equation": "ij,jk", "*operands": [F(2, 3), F(3, 2)]},
    "atomic": {"*variables": [Variable()]},
    "apply_gradients": {"grads": [F(2)], "variables": [Variable()], "optimizer": "sgd"},
    "gradients": {"ys": F(2), "xs": [F(2)]},
    "actor": {"factory": Declared, "*args": []},
    "call": {"target": Declared(), "method": "m", "*args": [F(2)], "outputs": spec("float32", (2,))},
    "py_actor": {"fn": lambda x: x, "inputs": [F(2)], "outputs": spec("float32", (2,))},
    "map_fn": {"fn": lambda row: row, "elems": F(3, 2)},
    **_all("fold scan", fn=lambda state, row: state, elems=F(3, 2), initial=F(2)),
    "custom_gradient": {"function": lambda x: (x, lambda g: g)},
    "recompute": {"function": lambda x: x},
    "while_loop": {"cond": lambda x: af.sum(x) < 3.0, "body": lambda x: x + 1.0, "loop_vars": F(2)},
    "cond": {"pred": L(), "true_fn": lambda: 1.0, "false_fn": lambda: 2.0},
    "switch_case": {"index": I(), "branches": [lambda: 1.0, lambda: 2.0]},
    "case": {"pairs": [(L(), lambda: 1.0)], "default": lambda: 2.0},
}
