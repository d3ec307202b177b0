"""Names as users write them: `af.relu`, `nn.Dense`, `clip_by_norm`, and what others call things."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from actorflow import ops, public

ELSEWHERE = {
    "addmm": "matmul", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "astype": "cast",
    "batch_matmul": "matmul", "bmm": "matmul", "cat": "concat", "clamp": "clip",
    "concatenate": "concat", "cross_entropy": "softmax_cross_entropy", "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum", "div": "divide", "fill": "full", "grad": "gradients",
    "hvp": "hessian_vector_product", "index_select": "gather", "inverse": "inv",
    "masked_select": "boolean_mask", "mm": "matmul", "mod": "remainder", "mul": "multiply", "neg": "negative",
    "permute": "transpose", "power": "pow", "range": "arange", "reduce_max": "max", "reduce_mean": "mean",
    "reduce_min": "min", "reduce_sum": "sum", "sigmoid_cross_entropy_with_logits": "sigmoid_cross_entropy",
    "softmax_cross_entropy_with_logits": "softmax_cross_entropy", "sub": "subtract", "take": "gather",
    "top_k": "topk", "truediv": "divide", "unsqueeze": "expand_dims", "view": "reshape",
}  # fmt: skip
"""What other libraries call it -> what it is called here, without `af.`."""

MODULES = ("nn", "optim", "optim.schedules", "init", "testing", "errors")
"""Where to look for a name that is no function of `af` itself."""


def plain(name: str) -> str:
    """Returns what is left of `af.relu`, `actorflow.relu` and `relu(x)`: the name."""
    return name.partition("(")[0].strip().removeprefix("actorflow.").removeprefix("af.")


def find_documented() -> dict[str, Any]:
    """Returns all that users can call, by the name behind `af.`, classes as well."""
    found = {name: getattr(ops, name) for name in ops.__all__}
    found |= {name: getattr(public, name) for name in public.__all__}
    for module in MODULES:
        found |= {f"{module}.{name}": value for name, value in _members(module)}
    return {name: value for name, value in found.items() if callable(value)}


def lookup(name: str) -> tuple[str, Any] | None:
    """Returns a documented name and what it is: by its whole name, or the last part if that is one only."""
    known = find_documented()
    if name in known:
        return name, known[name]
    ends = {known[n]: n for n in known if n.rpartition(".")[2] == name}
    return next(((n, value) for value, n in ends.items()), None) if len(ends) == 1 else None


def _members(module: str) -> Iterator[tuple[str, Any]]:
    where: Any = public
    for part in module.split("."):
        where = getattr(where, part)
    names = getattr(where, "__all__", None) or [n for n, v in vars(where).items() if _is_own(n, v, where)]
    return ((name, getattr(where, name)) for name in names)


def _is_own(name: str, value: Any, module: Any) -> bool:
    own = inspect.isfunction(value) or inspect.isclass(value)
    return own and not name.startswith("_") and value.__module__ == module.__name__
