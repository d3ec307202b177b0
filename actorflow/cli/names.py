"""Names as users write them: `af.nn.relu`, `nn.Dense`, `clip_by_norm`, and what others call things."""

from __future__ import annotations

from typing import Any

from actorflow import public

ELSEWHERE = {
    "addmm": "matmul", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "astype": "cast",
    "batch_matmul": "matmul", "bmm": "matmul", "cat": "concat", "clamp": "clip", "concatenate": "concat",
    "cross_entropy": "nn.softmax_cross_entropy", "cumprod": "cumulative_prod", "cumsum": "cumulative_sum",
    "div": "divide", "fill": "full", "grad": "gradients", "hvp": "autodiff.hessian_vector_product",
    "index_select": "gather", "inverse": "linalg.inv", "masked_select": "arrays.boolean_mask", "mm": "matmul",
    "mod": "remainder", "mul": "multiply", "neg": "negative", "permute": "transpose", "power": "pow",
    "range": "arange", "reduce_max": "max", "reduce_mean": "mean", "reduce_min": "min", "reduce_sum": "sum",
    "sigmoid_cross_entropy_with_logits": "nn.sigmoid_cross_entropy",
    "softmax_cross_entropy_with_logits": "nn.softmax_cross_entropy", "sub": "subtract", "take": "gather",
    "top_k": "arrays.topk", "truediv": "divide", "unsqueeze": "expand_dims", "view": "reshape",
}  # fmt: skip
"""What other libraries call it -> what it is called here, without `af.`."""


def plain(name: str) -> str:
    """Returns what is left of `af.nn.relu`, `actorflow.nn.relu` and `nn.relu(x)`: the name."""
    return name.partition("(")[0].strip().removeprefix("actorflow.").removeprefix("af.")


def find_documented() -> dict[str, Any]:
    """Returns all that users can call, by the name behind `af.`, classes as well."""
    return {name: value for name, value in public.everything() if callable(value)}


def lookup(name: str) -> tuple[str, Any] | None:
    """Returns a documented name and what it is: by its whole name, or the last part if that is one only.

    What others call another thing is no last part: `concatenate` is not `data.concatenate`.
    """
    known = find_documented()
    if name in known:
        return name, known[name]
    if name in ELSEWHERE:
        return None
    ends = {known[n]: n for n in known if n.rpartition(".")[2] == name}
    return next(((n, value) for value, n in ends.items()), None) if len(ends) == 1 else None
