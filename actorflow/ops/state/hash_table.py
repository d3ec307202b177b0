"""Hash tables: values by key, looked up and changed many at a time.

Nodes name the table in `attrs["resource"]`. These ops have no kernels: the actor that owns the table
answers them, at once. Within one step they happen in the order of the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.graph import current
from actorflow.graph.node import Attr, Port
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import HashTableDef
from actorflow.ops.definition import handle_arguments
from actorflow.ops.math.logic import where
from actorflow.ops.state.handle import Handle, as_typed_tensor, check_fits, resource_name, shared_name_of
from actorflow.ops.state.resource_methods import method, scalar
from actorflow.ops.text.encoding import as_bytes
from actorflow.ops.text.strings import hash_bucket
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import Array, as_dtype, broadcast_filled, convert_numbers, name_of, to_list
from actorflow.values.spec import Shape, Spec, sizes, spec

_INT64 = as_dtype("int64")


class HashTable(Handle[HashTableDef]):
    """A map from integers, bools or bytes to values of one shape and dtype.

    A key that is missing has the value `default`. Keys keep the order in which they were first
    inserted. What a step has inserted or removed stays so if the step is aborted, as an assign does.
    No gradient flows through a lookup: for rows that are trained use a variable and `af.gather`.

    Deviations from TensorFlow, and why: one class for tables that change and that do not; the contents
    of `initial` are there at once, so no step has to initialise the table; `remove` tells how many keys
    there were; `export` keeps the order of insertion, so that the same program gives the same.

    Args:
        key_dtype: Integers, bool or bytes. Floating keys are none: NaN equals nothing.
        value_dtype: Any.
        default: The value of a missing key; of value_shape, or what broadcasts to it.
        value_shape: The shape of each value; sizes are known.
        initial: (keys, values) to begin with, known while the graph is built, each key once.
        mutable: Whether keys may be inserted and removed.
        oov_buckets: For a table from `initial` to int64 that does not change: a key that is missing gets
            one of so many numbers above the count of keys, always the same, by `af.strings.hash_bucket`.
        max_size: How many keys it holds; an insert of more is refused. None for no limit.
        name: Name of the table; `hash_table`, `hash_table_1`, … when left out.
        shared_name: Under which all sessions of an actor system find the same table, in the open
            `af.state.container`; without it every session has its own. All say the same `default` and
            `initial` contents, in the same order, or are refused with a StateError. Not with
            oov_buckets, whose numbers follow those of one graph's contents.

    Raises:
        SpecError: for dtypes, shapes, contents and settings that cannot be.
        GraphError: when an explicit `name` is taken.

    >>> with af.Graph():
    ...     words = af.state.HashTable("bytes", "int64", -1, initial=([b"to", b"be"], [0, 1]))
    ...     print(words.lookup([b"be", b"or"]).spec, words)
    (2,) int64 <HashTable hash_table: () int64 by bytes>
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default: Any,
        value_shape: Iterable[int] = (),
        *,
        initial: tuple[Any, Any] | None = None,
        mutable: bool = True,
        oov_buckets: int = 0,
        max_size: int | None = None,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        graph = current()
        line = source_line()
        key = handle_arguments.check_spec("the keys of a table", key_dtype, None)
        if key.dtype.kind not in "biuO":
            message = f"the keys of a table are integers, bool or bytes, got {name_of(key.dtype)}"
            raise handle_arguments.spec_error(message)
        value = handle_arguments.check_spec("the values of a table", value_dtype, tuple(value_shape))
        if not value.is_static:
            message = f"the values of a table have one shape, all of it known, got {value}"
            raise handle_arguments.spec_error(message)
        # Known while the graph is built: the actor has it before any step.
        first = _constant(default, value, "the default of a table")
        begun = None if initial is None else _contents(initial, key, value)
        changes = handle_arguments.flag(mutable, "mutable")
        most = handle_arguments.limit(max_size, "the max_size of a table")
        self.oov_buckets = handle_arguments.whole(oov_buckets, "oov_buckets", 0)
        self._buckets_from = 0 if begun is None else len(begun[0])
        # Numbers of buckets follow the count of keys, which must not change then.
        if self.oov_buckets and (changes or begun is None or value != Spec((), _INT64)):
            message = (
                "oov_buckets are for a table from `initial` to int64 scalars with mutable=False, "
                f"got values {value}, mutable={changes}"
            )
            raise handle_arguments.spec_error(message)
        # Two graphs may count their keys differently.
        if self.oov_buckets and shared_name is not None:
            message = f"a table with oov_buckets is not shared, got shared_name {shared_name!r:.60}"
            hint = "it never changes, so make one in each graph; or do without oov_buckets"
            raise handle_arguments.spec_error(message, hint)
        if most is not None and self._buckets_from > most:
            message = f"a table of at most {most} keys cannot begin with {self._buckets_from}"
            raise handle_arguments.spec_error(message)
        wanted = resource_name(graph, name, "hash_table", Where(defined_at=line))
        local = wanted.removeprefix(graph.scope.name)
        # Contents are constants of the graph, which sessions read when they make the table.
        keys, values = begun or (None, None)
        super().__init__(
            HashTableDef(
                name=wanted,
                key=key,
                value=value,
                default=_port(first, f"{local}/default"),
                keys=_port(keys, f"{local}/initial_keys"),
                values=_port(values, f"{local}/initial_values"),
                mutable=changes,
                max_size=most,
                device=graph.scope.device,
                defined_at=line,
                **shared_name_of(graph, shared_name, "table", Where(defined_at=line)),
            )
        )

    def lookup(self, keys: Any) -> Tensor:
        """The value of each key, the default for those that are missing.

        Shapes:  keys S -> S + value_shape.
        """
        found = self._ask_one("hash_table_lookup", [self._keys(keys)])
        # Every key is looked up; where it is missing its bucket counts.
        if not self.oov_buckets:
            return found
        asked = self._keys(keys)
        # hash_bucket takes bytes: numbers by their digits.
        text = asked if asked.dtype.kind == "O" else as_bytes(asked)
        buckets = hash_bucket(text, self.oov_buckets) + self._buckets_from
        # By `contains` and not by the default, which may be a number of a key.
        return where(self.contains(asked), found, buckets)

    def contains(self, keys: Any) -> Tensor:
        """Whether each key is there; of the shape of `keys`."""
        return self._ask_one("hash_table_contains", [self._keys(keys)])

    def insert(self, keys: Any, values: Any) -> Tensor:
        """Sets the value of each key, of one that comes twice the last; gives True.

        Shapes:  keys S, values S + value_shape.

        Raises:
            SpecError: when keys or values do not fit.
            GraphError: for a table with mutable=False.
            StateError: in the step, when there would be too many keys; then nothing is inserted.
        """
        self._check_mutable()
        tensors = [self._keys(keys), as_typed_tensor(values, self.definition.value.dtype)]
        return self._ask_one("hash_table_insert", tensors)

    def remove(self, keys: Any) -> Tensor:
        """Forgets keys; gives how many there were, an int64 scalar.

        Raises:
            GraphError: for a table with mutable=False.
        """
        self._check_mutable()
        return self._ask_one("hash_table_remove", [self._keys(keys)])

    def size(self) -> Tensor:
        """How many keys there are, an int64 scalar."""
        return self._ask_one("hash_table_size", [])

    def export(self) -> tuple[Tensor, Tensor]:
        """All keys in the order of their insertion, and their values: (n,) and (n,) + value_shape."""
        keys, values = self._ask("hash_table_export", [])
        return keys, values

    def _keys(self, keys: Any) -> Tensor:
        return as_typed_tensor(keys, self.definition.key.dtype)

    def _check_mutable(self) -> None:
        if not self.definition.mutable:
            message = f"table {self.name!r} cannot be changed: it was made with mutable=False"
            raise GraphError(message, where=Where(defined_at=source_line()))

    def _spec_attrs(self) -> Mapping[str, Attr]:
        value = self.definition.value
        return {
            "key_dtype": name_of(self.definition.key.dtype),
            "dtype": name_of(value.dtype),
            "shape": value.shape,
        }


def _port(value: Array | None, name: str) -> Port | None:
    return None if value is None else as_tensor(value, name=name).port


def _constant(value: Any, wanted: Spec, what: str, *, whole: bool = False) -> Array:
    """Returns `value` as an array of what is wanted; raises SpecError when it is none.

    It may be broadcast, unless it is the `whole` of what is wanted.
    """
    # A tensor is known in the step alone.
    if isinstance(value, Tensor) or hasattr(value, "as_tensor"):
        message = f"{what} is known while the graph is built, got {value!r:.60}"
        raise handle_arguments.spec_error(message)
    try:
        made = convert_numbers(value, wanted.dtype)
        # A default may be broadcast; contents of another length than the keys are a mistake.
        if not whole or made.shape == wanted.shape:
            return broadcast_filled(made, sizes(wanted.shape))
        error: Exception = ValueError(f"its shape is {made.shape}")
    except (TypeError, ValueError, OverflowError) as refusal:
        error = refusal
    message = f"{what} fits {wanted}, got {value!r:.60}: {error}"
    raise handle_arguments.spec_error(message)


def _contents(initial: Any, key: Spec, value: Spec) -> tuple[Array, Array]:
    """The keys and values with which a table begins; SpecError when they do not fit."""
    if not isinstance(initial, tuple | list) or len(initial) != 2:
        message = f"the initial contents of a table are a pair (keys, values), got {initial!r:.60}"
        raise handle_arguments.spec_error(message)
    keys, values = initial
    n = len(keys) if hasattr(keys, "__len__") else 0
    first = _constant(keys, Spec((n,), key.dtype), "each key of the initial contents of a table", whole=True)
    each = Spec((n, *sizes(value.shape)), value.dtype)
    second = _constant(values, each, "the values of the initial contents of a table", whole=True)
    # Each key once: which of two values counts would be an accident of order.
    seen: set[Any] = set()
    for found in to_list(first):
        if found in seen:
            message = f"key {found!r:.60} comes twice in the initial contents of a table"
            raise handle_arguments.spec_error(message)
        seen.add(found)
    return first, second


def _check_specs(attrs: Mapping[str, Attr]) -> tuple[Spec, Spec]:
    """The specs of one key, whose shape is open, and of one value; SpecError for what cannot be a key."""
    key = spec(attrs["key_dtype"], None)
    # Floating keys are none: NaN equals nothing.
    if key.dtype.kind not in "biuO":
        message = f"the keys of a table are integers, bool or bytes, got {name_of(key.dtype)}"
        raise SpecError(message)
    return key, spec(attrs["dtype"], attrs["shape"])


def _of_each(keys: Spec, attrs: Mapping[str, Attr]) -> Spec:
    """The spec of a value for each key; SpecError when the keys do not fit."""
    key, value = _check_specs(attrs)
    check_fits(keys, key, f"the keys of table {attrs['resource']!r}")
    shape: Shape = None
    # A value for each key, in the shape of the keys.
    if keys.shape is not None and value.shape is not None:
        shape = (*keys.shape, *value.shape)
    return Spec(shape, value.dtype)


def _insert_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    keys, values = inputs
    check_fits(values, _of_each(keys, attrs), f"the values for table {attrs['resource']!r}")
    return (spec("bool"),)


def _lookup_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (_of_each(inputs[0], attrs),)


def _contains_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    _of_each(inputs[0], attrs)
    return (Spec(inputs[0].shape, as_dtype("bool")),)


def _remove_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    _of_each(inputs[0], attrs)
    return (spec("int64"),)


def _export_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    key, value = _check_specs(attrs)
    return Spec((None,), key.dtype), Spec((None, *(value.shape or ())), value.dtype)


_ASKED = ({"resource": "", "key_dtype": "int32", "dtype": "float32", "shape": None},)

method("hash_table_insert", _insert_spec, Effect.WRITE, HashTable.insert, _ASKED)
method("hash_table_remove", _remove_spec, Effect.WRITE, HashTable.remove, _ASKED)
method("hash_table_lookup", _lookup_spec, Effect.READ, HashTable.lookup, _ASKED)
method("hash_table_contains", _contains_spec, Effect.READ, HashTable.contains, _ASKED)
method("hash_table_size", scalar("int64"), Effect.READ, HashTable.size)
method("hash_table_export", _export_spec, Effect.READ, HashTable.export, _ASKED)
