"""The hash table actor: values by key, and the messages that it takes. Its rule is `key_index.KeyIndex`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.replies import Replied
from actorflow.dataflow.state.resource_actor import ResourceActor, WriteOnce
from actorflow.errors import InternalError, SpecError, StateError
from actorflow.values import arrays
from actorflow.values.arrays import Array
from actorflow.values.key_index import KeyIndex
from actorflow.values.spec import Spec, show, sizes


@dataclass(frozen=True, slots=True)
class Insert:
    """Node → table: a value for each key; answered with True."""

    keys: Array
    values: Array


@dataclass(frozen=True, slots=True)
class Remove:
    """Node → table: keys to forget; answered with how many there were."""

    keys: Array


@dataclass(frozen=True, slots=True)
class LookUpKeys:
    """Node → table: the value of each key, or the default."""

    keys: Array


@dataclass(frozen=True, slots=True)
class Contains:
    """Node → table: whether each key is there."""

    keys: Array


@dataclass(frozen=True, slots=True)
class TableSize:
    """Node → table: how many keys there are."""


@dataclass(frozen=True, slots=True)
class Export:
    """Node → table: all keys, in the order in which they came, and their values."""


class HashTableActor(ResourceActor):
    """Owns the keys and values of one table.

    Receives: Insert, Remove, LookUpKeys, Contains, TableSize, Export.
    Promise: each is answered at once and takes effect as a whole, in mailbox order; what is answered is
        a copy that never changes. A retried write is not applied again: by itself it would change
        nothing the second time, but it would undo what others have written since.
    """

    what = "hash table"

    def __init__(
        self,
        name: str,
        key: Spec,
        value: Spec,
        default: Array,
        initial: Sequence[Array],
        *,
        mutable: bool,
        max_size: int | None,
    ) -> None:
        super().__init__(name)
        self.key = key
        self.value = value
        self.default = default
        self.mutable = mutable
        self.table = KeyIndex(name, key.dtype, sizes(value.shape), value.dtype, max_size)
        if initial:
            self.table.insert(*initial)

    def obey(self, body: Any, who: Any) -> Sequence[Replied]:
        """What the table says."""
        match body:
            case LookUpKeys(keys):
                return [Replied(who, self.table.lookup(self._keys(keys), self.default))]
            case Contains(keys):
                return [Replied(who, self.table.contains(self._keys(keys)))]
            case Insert(keys, values):
                self._check_mutable()
                self._check_values(self._keys(keys), values)
                self.table.insert(keys, values)
                return [Replied(who, True)]
            case Remove(keys):
                self._check_mutable()
                return [Replied(who, self.table.remove(self._keys(keys)))]
            case TableSize():
                return [Replied(who, len(self.table))]
            case Export():
                return [Replied(who, self.table.export())]
        message = f"a hash table takes no {type(body).__name__}"
        raise InternalError(message)

    def _check_mutable(self) -> None:
        if not self.mutable:
            message = f"table {self.name!r} cannot be changed: it was made with mutable=False"
            raise StateError(message)

    def _keys(self, keys: Array) -> Array:
        if keys.dtype != self.key.dtype:
            message = (
                f"the keys of table {self.name!r} are {arrays.name_of(self.key.dtype)}, "
                f"got {arrays.name_of(keys.dtype)}"
            )
            raise SpecError(message)
        return arrays.as_array(keys)

    def _check_values(self, keys: Array, values: Array) -> None:
        wanted = (*keys.shape, *sizes(self.value.shape))
        if values.shape != wanted or values.dtype != self.value.dtype:
            message = (
                f"table {self.name!r} takes values of {show(wanted)} {arrays.name_of(self.value.dtype)} for "
                f"keys of {show(keys.shape)}, got {show(values.shape)} {arrays.name_of(values.dtype)}"
            )
            raise SpecError(message)


FIXED: Mapping[str, Any] = {"hash_table_size": TableSize(), "hash_table_export": Export()}
MADE: Mapping[str, Any] = {
    "hash_table_lookup": lambda args, attrs: LookUpKeys(args[0]),
    "hash_table_contains": lambda args, attrs: Contains(args[0]),
}


def _insert(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> WriteOnce:
    return WriteOnce(Insert(args[0], args[1]), source, sequence)


def _remove(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> WriteOnce:
    return WriteOnce(Remove(args[0]), source, sequence)


WRITTEN: Mapping[str, Any] = {"hash_table_insert": _insert, "hash_table_remove": _remove}
