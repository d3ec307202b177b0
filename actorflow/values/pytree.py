"""Pytrees: nested structures of fetches are flattened, and values put together in the same shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Rebuild = Callable[[Sequence[Any]], Any]


def flatten(tree: Any) -> tuple[list[Any], Rebuild]:
    """Returns the leaves of `tree` from left to right, and how to rebuild it from as many values.

    Tuples, named tuples, lists and mappings (in their own order) are inner nodes, and so is what says
    by `tree_flatten()` which leaves it has and how they are put together; None stays None; everything
    else is a leaf.
    """
    leaves: list[Any] = []
    build = _visit(tree, leaves)
    return leaves, build


def _visit(tree: Any, leaves: list[Any]) -> Rebuild:
    # No leaf: there is nothing to fetch, and None in its place.
    if tree is None:
        return lambda values: None
    if isinstance(tree, Mapping):
        # The keys of now: a mapping that changes later does not change the structure.
        keys = list(tree)
        parts = [_visit(tree[key], leaves) for key in keys]
        return lambda values: {key: part(values) for key, part in zip(keys, parts, strict=True)}
    if isinstance(tree, tuple | list):
        inner = [_visit(item, leaves) for item in tree]
        if isinstance(tree, list):
            return lambda values: [part(values) for part in inner]
        # A named tuple takes its parts one by one.
        if hasattr(tree, "_fields"):
            return lambda values: type(tree)(*(part(values) for part in inner))
        return lambda values: tuple(part(values) for part in inner)
    if hasattr(type(tree), "tree_flatten"):  # tensors answer for names that they lack, which takes time
        children, whole = tree.tree_flatten()
        several = _visit(list(children), leaves)
        return lambda values: whole(several(values))
    # Bound now: the number of this leaf.
    index = len(leaves)
    leaves.append(tree)
    return lambda values: values[index]


def treedef(tree: Any, leaf: str = "*") -> str:
    """Returns how a structure is built, `leaf` for its leaves: two are alike if this is the same."""

    def several(trees: Iterable[Any]) -> str:
        return ", ".join(treedef(each, leaf) for each in trees)

    if tree is None:
        return "None"
    if isinstance(tree, Mapping):
        return "{" + ", ".join(f"{key!r}: {treedef(value, leaf)}" for key, value in tree.items()) + "}"
    if isinstance(tree, list):
        return f"[{several(tree)}]"
    if isinstance(tree, tuple):
        kind = type(tree).__name__ if hasattr(tree, "_fields") else ""
        # With the comma of Python, so that (x) and (x,) differ.
        return f"{kind}({several(tree)}{',' if len(tree) == 1 else ''})"
    return type(tree).__name__ if hasattr(type(tree), "tree_flatten") else leaf


def ordered_like(tree: Any, value: Any) -> Any:
    """Returns `value` with its mappings in the order of those of `tree`, where they have the same keys."""
    if isinstance(tree, Mapping) and isinstance(value, Mapping) and tree.keys() == value.keys():
        return {key: ordered_like(each, value[key]) for key, each in tree.items()}
    if isinstance(tree, list) and isinstance(value, list) and len(tree) == len(value):
        return [ordered_like(t, v) for t, v in zip(tree, value, strict=True)]
    if isinstance(tree, tuple) and isinstance(value, tuple) and len(tree) == len(value):
        parts = [ordered_like(t, v) for t, v in zip(tree, value, strict=True)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def leaves_like(tree: Any, value: Any) -> list[Any]:
    """Returns what stands in `value` where `tree` has its leaves, from left to right.

    Raises:
        ValueError: when `value` has another structure.
    """
    if tree is None:
        if value is not None:
            message = f"nothing was to be returned, got {type(value).__name__}"
            raise ValueError(message)
        return []
    if isinstance(tree, Mapping):
        if not isinstance(value, Mapping) or value.keys() != tree.keys():
            got = list(value) if isinstance(value, Mapping) else type(value).__name__
            message = f"a dict with the keys {list(tree)}, got {got}"
            raise ValueError(message)
        return [leaf for key in tree for leaf in leaves_like(tree[key], value[key])]
    if isinstance(tree, tuple | list):
        if not isinstance(value, tuple | list) or len(value) != len(tree):
            several = isinstance(value, tuple | list)
            got = f"{len(value)}" if several else type(value).__name__
            message = f"{len(tree)} values in a {type(tree).__name__}, got {got}"
            raise ValueError(message)
        return [leaf for t, v in zip(tree, value, strict=True) for leaf in leaves_like(t, v)]
    return [value]
