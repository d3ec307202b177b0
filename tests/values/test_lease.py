"""Lent arrays: nobody who holds one can write, and their memory comes back when nobody holds them."""

from __future__ import annotations

import ctypes
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.values import lease
from actorflow.values.arrays import NAMES, as_dtype
from actorflow.values.lease import Owner, memory_of, read_only_copy, read_only_view, unshared
from tests.support.holding import HOLD, arrays_of, set_in_place

SHAPE = (4, 2)


def lent(dtype: Any = "float64") -> list[Any]:
    """A cell with a lent array that nobody else holds."""
    return [read_only_view(np.arange(8).astype(as_dtype(dtype)).reshape(SHAPE))]


@pytest.mark.parametrize("dtype", NAMES)
def test_memory_that_nobody_holds_comes_back_and_is_written_in_place(dtype: str) -> None:
    cell = lent(dtype)
    address = cell[0].__array_interface__["data"][0]

    for _ in range(3):
        memory = memory_of(cell)
        assert memory is not None
        memory[1] = 1
        assert memory.__array_interface__["data"][0] == address
        del memory

    assert cell[0].dtype == as_dtype(dtype)
    assert cell[0][1].tolist() == np.ones(2, as_dtype(dtype)).tolist()


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "complex64", "bool"])
@pytest.mark.parametrize("how", HOLD)
def test_memory_comes_back_when_the_last_alias_dies_and_not_before(how: str, dtype: str) -> None:
    if dtype == "bfloat16" and ("memoryview" in how or "buffer" in how or how == "dlpack"):
        pytest.skip("neither buffers nor dlpack know bfloat16")
    cell = lent(dtype)
    held = HOLD[how](cell[0])
    assert memory_of(cell) is None

    if isinstance(held, np.ndarray):  # it is passed on, and the first alias is dropped
        held = held[1:]
        assert memory_of(cell) is None
    del held

    assert memory_of(cell) is not None


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("how", HOLD)
def test_nobody_who_holds_an_alias_can_write(how: str, dtype: str) -> None:
    if dtype == "bfloat16" and ("memoryview" in how or "buffer" in how or how == "dlpack"):
        pytest.skip("neither buffers nor dlpack know bfloat16")
    cell = lent(dtype)
    held = HOLD[how](cell[0])
    before = cell[0].tobytes()

    for array in arrays_of(held):
        assert not array.flags.writeable
        with pytest.raises(ValueError, match=r"cannot set WRITEABLE flag to True"):
            array.flags.writeable = True
        with pytest.raises(ValueError, match=r"read-only|not writeable"):
            array[...] = 7
    if isinstance(held, memoryview):
        with pytest.raises(TypeError, match="read-only"):
            held[0] = 7

    assert cell[0].tobytes() == before


def test_the_owner_shows_no_memory_that_can_be_written() -> None:
    (array,) = lent()
    assert isinstance(array.base.base, Owner)
    owner: Any = array.base.base

    assert not hasattr(owner, "_memory")
    assert not hasattr(owner, "__dict__")
    owner.__array_interface__["data"] = (0, False)
    again = np.asarray(owner)
    assert not again.flags.writeable
    assert again.tolist() == array.tolist()
    with pytest.raises(AttributeError):
        owner.__array_interface__ = {}


def test_a_weak_reference_counts_since_it_can_give_the_array_at_any_time() -> None:
    cell = lent()
    weak = weakref.ref(cell[0])

    assert memory_of(cell) is None
    del weak

    assert memory_of(cell) is not None


def test_memory_that_the_lender_still_holds_does_not_come_back() -> None:
    memory = np.zeros(SHAPE)
    cell = [read_only_view(memory)]

    assert memory_of(cell) is None
    del memory

    assert memory_of(cell) is not None


def test_what_sees_only_a_part_of_its_memory_is_copied_when_it_is_lent() -> None:
    whole = np.zeros((9, 2))

    cells = [
        [read_only_view(whole[:4])],
        [read_only_view(np.zeros((2, 4)).T)],
        [read_only_view(np.float32(3))],
        [read_only_view(whole.view(np.matrix))],
    ]

    assert all(memory_of(cell) is not None for cell in cells)
    assert [cell[0].shape for cell in cells] == [(4, 2), (4, 2), (), (9, 2)]
    assert all(type(cell[0]) is np.ndarray for cell in cells)
    assert not np.shares_memory(cells[0][0], whole)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_scalars_and_arrays_of_nothing_are_lent_as_others(shape: tuple[int, ...], dtype: str) -> None:
    cell = [read_only_view(np.zeros(shape, as_dtype(dtype)))]

    assert (cell[0].shape, cell[0].dtype) == (shape, as_dtype(dtype))
    assert memory_of(cell) is not None
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        cell[0].flags.writeable = True


def test_bytes_are_read_only_and_never_come_back() -> None:
    cell = [read_only_copy(np.array([b"a", b"bc"], object))]

    assert cell[0].tolist() == [b"a", b"bc"]
    assert not cell[0].flags.writeable
    assert memory_of(cell) is None


@pytest.mark.parametrize("change", [{"shape": (8,)}, {"dtype": np.dtype("int64")}])
def test_a_view_that_was_seen_in_another_way_does_not_come_back(change: dict[str, Any]) -> None:
    """numpy lets whoever holds an array set its shape; its memory would be taken for another value's."""
    cell = lent()
    for name, value in change.items():
        set_in_place(cell[0], name, value)

    assert memory_of(cell) is None


def test_an_array_that_was_not_lent_has_no_memory_to_come_back() -> None:
    array = np.zeros(3)

    for cell in ([array], [array[:2]], [np.float32(1)], [None], [np.frombuffer(b"12345678")]):
        assert memory_of(cell) is None


def test_a_thread_that_works_on_an_array_holds_it() -> None:
    cell = lent()
    begun, go_on = threading.Event(), threading.Event()
    found = []

    def work(array: np.ndarray) -> None:
        begun.set()
        go_on.wait()
        found.append(array.tolist())

    thread = threading.Thread(target=work, args=(cell[0],))
    thread.start()
    begun.wait()
    while_it_works = memory_of(cell)
    go_on.set()
    thread.join()
    del thread

    assert while_it_works is None
    assert memory_of(cell) is not None


def test_a_copy_and_a_pickle_have_memory_of_their_own() -> None:
    cell = lent()
    before = cell[0].tolist()
    copies = [cell[0].copy(), pickle.loads(pickle.dumps(cell[0])), cell[0] + 0, read_only_copy(cell[0])]

    memory = memory_of(cell)
    assert memory is not None
    memory[...] = -1

    assert [c.tolist() for c in copies] == [before] * 4


def test_an_array_of_its_own_is_unshared_until_somebody_holds_it() -> None:
    cell = [np.zeros(3)]

    assert unshared(cell)
    held = cell[0][1:]
    assert not unshared(cell)
    del held
    assert unshared(cell)


@pytest.mark.parametrize(
    "counted",
    [
        pytest.param(lambda cell: (1, 1, 1), id="counts nothing"),
        pytest.param(lambda cell: (id(cell), 1, 1), id="never counts the same"),
    ],
)
def test_an_interpreter_that_counts_otherwise_is_found_out(
    monkeypatch: pytest.MonkeyPatch, counted: Callable[[list[Any]], tuple[int, ...]]
) -> None:
    cells: list[Any] = []  # keeps them, so that no two have the same address

    def counting(cell: list[Any]) -> tuple[int, ...]:
        cells.append(cell)
        return counted(cell)

    assert lease.probe()
    monkeypatch.setattr(lease, "_references", counting)

    assert lease.probe() == frozenset()


@pytest.mark.parametrize("lost", range(len(lease.ALIASES)))
def test_an_interpreter_that_overlooks_one_sort_of_alias_is_found_out(
    monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """The alias is made and dropped at once: what an interpreter that does not count it would show."""
    aliases = list(lease.ALIASES)
    alias = aliases[lost]

    def overlooked(array: Any) -> None:
        alias(array)

    aliases[lost] = overlooked
    monkeypatch.setattr(lease, "ALIASES", tuple(aliases))

    assert lease.probe() == frozenset()


def test_without_a_global_lock_nothing_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)

    assert lease.probe() == frozenset()


def test_an_interpreter_that_was_found_out_gives_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_ALONE", frozenset())

    assert memory_of(lent()) is None
    assert not unshared([np.zeros(2)])


@pytest.mark.usefixtures("only_new_garbage")
def test_lent_memory_is_freed_with_its_last_alias() -> None:
    gc.collect()
    gc.disable()
    try:
        cell = lent()
        gone = weakref.ref(cell[0].base)
        part = cell[0][1:]
        cell.clear()
        assert gone() is not None
        del part
        assert gone() is None, "no circle holds it"
    finally:
        gc.enable()


def capsule_flags(capsule: Any) -> int:
    """The flags of a DLPack capsule, behind its version, context and deleter; bit 0 says read-only."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(capsule, b"dltensor_versioned")
    return ctypes.c_uint64.from_address(address + 24).value


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="numpy exports flags from 2.1 on")
@pytest.mark.parametrize("kind", ["a variable", "a slice of it", "a constant"])
def test_what_is_fetched_is_exported_read_only_over_dlpack(kind: str) -> None:
    """Who imports it is told; one that does not look can write, as docs/variables.md says."""
    with af.Graph() as graph:
        w = af.Variable(np.arange(4.0), name="w")
        fetch = {"a variable": w.read(), "a slice of it": w.read()[1:], "a constant": af.constant([1.0, 2.0])}

    async def main() -> Any:
        async with af.Session(graph) as session:
            return await session.run(fetch[kind])

    value = af.run(main())

    assert capsule_flags(value.__dlpack__(max_version=(1, 0))) & 1
    assert not np.from_dlpack(value).flags.writeable
    with pytest.raises(BufferError):  # a capsule without flags could not say it
        value.__dlpack__()
    own = np.from_dlpack(np.copy(value))
    own[0] = 7
    assert value[0] != 7
