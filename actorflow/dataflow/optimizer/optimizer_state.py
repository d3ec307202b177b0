"""The rule of an optimizer's state: what an update keeps, and how some rows of it are replaced.

The state is a tree of dicts, tuples and lists with arrays at its leaves. Whoever looks at it gets a
tree of their own with the same arrays, so that everything outside that keeps one of them holds a
reference to it. An update gives the state afterwards; a leaf of it that is `SparseRows` stands for the
array that was there with these rows replaced. Preparing checks all of that and reserves room;
committing puts the rows into the array that is there if the state alone holds it, else into a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actorflow.errors import StateError
from actorflow.values.arrays import Array, NDArray, touch
from actorflow.values.sparse import SparseRows, fill, is_shared, put, spare_for
from actorflow.values.spec import show

Tree = Any
"""Arrays in nested dicts, tuples and lists: the state of an optimizer."""

Path = tuple[Any, ...]
"""The keys and positions that lead to a leaf."""


@dataclass(frozen=True, slots=True)
class Apart:
    """A state taken apart: its shape, and its leaves by where they are."""

    skeleton: Tree
    leaves: dict[Path, Any]


def apart(tree: Tree) -> Apart:
    """Takes a state apart."""
    leaves: dict[Path, Any] = {}
    return Apart(_flatten(tree, (), leaves), leaves)


@dataclass(frozen=True, slots=True)
class PreparedState:
    """A state that only waits for its commit: its shape, its leaves, and room for those given as rows.

    Attributes:
        held: The arrays that others held, of those whose rows change: the commit will copy them,
            unless `fill` does so before.
        filled: Those whose spares have their values already.
    """

    skeleton: Tree
    leaves: dict[Path, Any]
    spares: dict[Path, Array]
    held: dict[Path, Array]
    filled: set[Path]

    def fill(self) -> None:
        """Copies what is held; on any thread."""
        while self.held:
            path, array = self.held.popitem()
            fill(self.spares[path], array)
            self.filled.add(path)


@dataclass(frozen=True, slots=True)
class MadeFor:
    """Of what shapes the variables were when the state was made, and what shapes it had then.

    A state that does not depend on the shapes of its variables, such as a count, outlives their change.
    """

    params: Mapping[str, tuple[int, ...]]
    leaves: Mapping[Path, tuple[int, ...]]

    def check(self, params: Mapping[str, tuple[int, ...]], leaves: Mapping[Path, tuple[int, ...]]) -> None:
        """Raises StateError, naming the variable, when a state made for `params` now is of other shapes.

        Args:
            params: The shapes of the variables now.
            leaves: Those of the state that would be made for them.
        """
        if leaves == self.leaves:
            return
        name = next(n for n, shape in params.items() if shape != self.params[n])
        was, now = show(self.params[name]), show(params[name])
        message = f"the state of an optimizer keeps the shapes it was made for, {name!r} was {was}, got {now}"
        hint = (
            f"assign {name!r} a value of shape {was}, take a rule that keeps nothing for each element, such "
            "as af.optim.sgd, or begin a new session: its first update makes the state anew"
        )
        raise StateError(message, hint=hint)


class OptimizerState:
    """The state between updates.

    INVARIANT: the leaves are those of the last commit, or of the tree it was made from, and no leaf
    is SparseRows. What `tree` has given never changes.
    """

    __slots__ = ("_leaves", "_skeleton")

    def __init__(self, tree: Tree) -> None:
        state = apart(tree)
        self._leaves, self._skeleton = state.leaves, state.skeleton
        for path, leaf in self._leaves.items():
            if type(leaf) is SparseRows:
                message = f"the state before the first update has whole arrays, got {leaf!r} at {named(path)}"
                raise StateError(message)

    def tree(self) -> Tree:
        """Returns the state, in dicts, tuples and lists that nobody else has."""
        return _unflatten(self._skeleton, self._leaves.__getitem__)

    def shapes(self) -> dict[Path, tuple[int, ...]]:
        """Returns the shape of every array, by where it is."""
        return {path: leaf.shape for path, leaf in self._leaves.items() if isinstance(leaf, NDArray)}

    def touch(self) -> None:
        """Has all memory of the arrays made now and not at the first update; on any thread."""
        for leaf in self._leaves.values():
            if isinstance(leaf, NDArray):
                touch(leaf)

    def leaf(self, path: Path) -> Any:
        """Returns what is there, None where nothing is."""
        return self._leaves.get(path)

    def prepare(self, state: Apart) -> PreparedState:
        """Returns what a commit of `state` needs.

        Raises:
            StateError: when rows stand where there is no array of their shape and dtype.
        """
        leaves = state.leaves
        spares: dict[Path, Array] = {}
        others: dict[Path, Array] = {}
        for path, leaf in leaves.items():
            if type(leaf) is SparseRows:
                spares[path] = spare_for(self._of_rows(path, leaf))
                if self._is_held(path):
                    others[path] = self._leaves[path]
        return PreparedState(state.skeleton, leaves, spares, others, set())

    def commit(self, prepared: PreparedState) -> None:
        """Makes the prepared state the present one. Cannot fail."""
        leaves = prepared.leaves
        for path, spare in prepared.spares.items():
            cell = [self._leaves.pop(path)]  # ORDER: the cell alone holds it when `put` looks who does
            leaves[path] = put(cell, leaves[path], spare, filled=path in prepared.filled)
        self._leaves, self._skeleton = leaves, prepared.skeleton

    def _is_held(self, path: Path) -> bool:
        cell = [self._leaves[path]]
        self._leaves[path] = None  # ORDER: as in `commit`
        found = is_shared(cell)
        self._leaves[path] = cell.pop()
        return found

    def _of_rows(self, path: Path, rows: SparseRows) -> Array:
        """The array that `rows` are of."""
        array = self._leaves.get(path)
        if not isinstance(array, NDArray):
            message = (
                f"rows in a state replace those of an array, got {rows!r} at {named(path)}: {array!r:.60}"
            )
            raise StateError(message, hint="return the state in the structure that `init` gave it")
        if array.shape != rows.shape or array.dtype != rows.dtype:
            message = (
                f"rows in a state keep shape and dtype, {show(array.shape)} {array.dtype.name} "
                f"at {named(path)}, got {show(rows.shape)} {rows.dtype.name}"
            )
            raise StateError(message)
        return array


def _flatten(tree: Tree, path: Path, leaves: dict[Path, Any]) -> Tree:
    """Puts the leaves into `leaves` and returns the tree with paths in their places."""
    if type(tree) is dict:
        skeleton: dict[Any, Any] = {}  # no call for each array: an update of small ones is mostly calls
        for key, value in tree.items():
            here = (*path, key)
            if type(value) is NDArray:
                leaves[here] = value
                skeleton[key] = _Leaf(here)
            else:
                skeleton[key] = _flatten(value, here, leaves)
        return skeleton
    if _is_sequence(tree):
        return _like(tree, [_flatten(value, (*path, i), leaves) for i, value in enumerate(tree)])
    leaves[path] = tree
    return _Leaf(path)


@dataclass(slots=True)
class _Leaf:
    """Where a leaf was."""

    path: Path


def _unflatten(skeleton: Tree, leaf: Callable[[Path], Any]) -> Tree:
    if type(skeleton) is _Leaf:
        return leaf(skeleton.path)
    if type(skeleton) is dict:
        return {key: _unflatten(value, leaf) for key, value in skeleton.items()}
    return _like(skeleton, [_unflatten(value, leaf) for value in skeleton])


def _is_sequence(tree: Tree) -> bool:
    return type(tree) in (tuple, list) or (isinstance(tree, tuple) and hasattr(tree, "_fields"))


def _like(tree: Tree, values: list[Any]) -> Tree:
    """The values in a sequence of the kind of `tree`."""
    return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)


def named(path: Path) -> str:
    """Returns the path as one writes it: `state['mean']['w']`."""
    return "state" + "".join(f"[{key!r}]" for key in path)
