"""A list of tensors: any tree of its versions is what dicts would be, and a write is cheap."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import KernelError, ListError
from actorflow.values.tensor_list import TensorList

Model = dict[int, np.ndarray]


def array(number: int) -> np.ndarray:
    return np.full((2,), float(number))


def seen(of: TensorList) -> dict[int, list[float]]:
    return {i: value.tolist() for i, value in of.items()}


def told(model: Model) -> dict[int, list[float]]:
    return {i: value.tolist() for i, value in sorted(model.items())}


def check(of: TensorList, model: Model) -> None:
    assert seen(of) == told(model)
    assert of.present == len(model)
    assert of.nbytes == sum(v.nbytes for v in model.values())
    assert len(of) == max(model, default=-1) + 1 if of.size is None else len(of) == of.size
    for i in range(6):
        found = of.get(i)
        assert (found is None) == (i not in model)
        assert found is None or found.tolist() == model[i].tolist()


def levels(of: TensorList) -> list[set[int]]:
    """The nodes of a version, by identity, from the root down: they are the lists that it refers to."""
    found, ahead = list[set[int]](), [each for each in gc.get_referents(of) if type(each) is list]
    while ahead:
        found.append({id(node) for node in ahead})
        ahead = [below for node in ahead for below in node if type(below) is list]
    return found


def nodes(of: TensorList) -> set[int]:
    return set().union(*levels(of))


# ------------------------------------------------------------------------------------- the law


@given(data=st.data(), size=st.none() | st.integers(1, 5))
def test_any_tree_of_versions_equals_dicts(data: st.DataObject, size: int | None) -> None:
    versions: list[tuple[TensorList, Model]] = [(TensorList(size=size), {})]
    steps = data.draw(
        st.lists(st.tuples(st.sampled_from(["write", "accumulate", "add", "push"]), st.integers(0, 99), st.integers(0, 5), st.integers(0, 99)), max_size=12)
    )  # fmt: skip
    for number, (what, which, index, other) in enumerate(steps):
        version, model = versions[-1 if which % 3 else which % len(versions)]
        value = array(number + 1)
        inside = size is None or index < size
        if what == "push":
            if size is not None:
                with pytest.raises(ListError, match="a fixed size cannot grow"):
                    version.push(value)
                continue
            made, grown = version.push(value), {**model, len(version): value}
        elif what == "add":
            second, more = versions[other % len(versions)]
            made = version.add(second)
            both = model.keys() | more.keys()
            grown = {i: sum((m[i] for m in (model, more) if i in m), np.zeros(2)) for i in both}
        elif not inside or (what == "write" and index in model):
            with pytest.raises(ListError):
                getattr(version, what)(index, value)
            continue
        else:
            made = getattr(version, what)(index, value)
            grown = {**model, index: model.get(index, np.zeros(2)) + value}
        if size is None and what in ("write", "accumulate") and index not in model and index > len(version):
            assert len(made) == index + 1
        versions.append((made, grown))
    for version, model in versions:
        check(version, model)


@given(st.lists(st.integers(0, 40_000), max_size=8, unique=True), st.integers(0, 40))
def test_indices_far_apart_are_found_where_they_were_put(indices: list[int], count: int) -> None:
    made = TensorList.of([array(i) for i in range(count)])
    for index in indices:
        made = made.accumulate(index, array(index))

    model: Model = {i: array(i) for i in range(count)}
    model.update({i: model.get(i, np.zeros(2)) + i for i in indices})
    assert seen(made) == told(model)
    assert len(made) == max(model, default=-1) + 1
    assert [made.get(i) is None for i in (0, 31, 32, 1023, 1024, 32_768, 10**12, -1)] == [
        i not in model for i in (0, 31, 32, 1023, 1024, 32_768, 10**12, -1)
    ]


@given(st.sets(st.integers(0, 40_000), max_size=6), st.booleans())
def test_values_are_put_at_indices_and_each_is_mapped(indices: set[int], sized: bool) -> None:
    """Also those of lists in the list; the list that was there stays as it was."""
    size = 40_001 if sized else None
    made = TensorList.at([*indices], [array(i) for i in indices], size)

    doubled = TensorList.of([made, made]).map(lambda value: value * 2.0).read(1)

    check(made, {i: array(i) for i in indices})
    check(doubled, {i: array(2 * i) for i in indices})


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 1024, 1025])
def test_a_list_of_values_is_what_writes_make(count: int) -> None:
    whole, line = TensorList.of([array(i) for i in range(count)]), TensorList()
    for i in range(count):
        line = line.push(array(i))

    assert seen(whole) == seen(line)
    assert [v[0] for v in whole.values()] == list(range(count))
    assert [len(level) for level in levels(whole)] == [len(level) for level in levels(line)]
    assert (len(whole), whole.present, whole.nbytes) == (count, count, line.nbytes)


def test_a_write_makes_one_node_a_level_and_shares_the_rest() -> None:
    line = TensorList.of([array(i) for i in range(1000)])
    fork = line
    for i in range(1000, 1100):
        before = line
        line = line.push(array(i)).accumulate(i // 2, array(1))
        fork = fork.write(5000 - i, array(i))  # a second line from the same beginning costs no more

        assert len(nodes(line) - nodes(before)) <= 2 * len(levels(line))
    assert len(nodes(TensorList.of([array(i) for i in range(1000)]))) == 33


def test_the_sum_takes_as_long_as_the_smaller_list_is() -> None:
    many, few = TensorList.of([array(i) for i in range(1000)]), TensorList().write(7, array(1))

    for total in (many.add(few), few.add(many)):
        assert total.present == 1000
        assert total.read(7).tolist() == [8.0, 8.0]
        assert len(nodes(total) - nodes(many)) == 2
    assert many.read(7).tolist() == [7.0, 7.0]


# ---------------------------------------------------------------------------------------- memory


class Watched(np.ndarray):
    """An array that can be watched while nobody counts cycles."""


def watched() -> Watched:
    return np.zeros(2).view(Watched)


def test_what_no_version_sees_is_freed_without_the_collector() -> None:
    gc.disable()
    try:
        line = TensorList().write(0, watched())
        first = weakref.ref(line.read(0))
        old = line
        line = line.accumulate(0, watched())
        second = weakref.ref(line.read(0))
        line = line.accumulate(0, watched())

        assert first() is not None  # `old` sees it
        assert second() is None  # nobody does
        assert old.read(0) is first()
        del old
        assert first() is None
        third = weakref.ref(line.read(0))
        del line
        assert third() is None
    finally:
        gc.enable()


def test_a_long_line_behind_an_old_version_is_let_go_of() -> None:
    old = line = TensorList().write(0, np.float64(0))
    for _ in range(100_000):
        line = line.accumulate(0, np.float64(1))

    assert (old.read(0), line.read(0)) == (0.0, 100_000.0)
    del old


def test_an_array_is_held_and_not_copied() -> None:
    value = array(1)
    value.flags.writeable = False

    assert TensorList().write(3, value).push(value).read(4) is value


# --------------------------------------------------------------------------------------- threads


def test_of_many_threads_that_write_to_one_version_each_gets_its_own() -> None:
    """Versions share nodes, and whoever reads the first meanwhile sees no tear."""
    base = TensorList.of([array(i) for i in range(8)])
    start, wrong = threading.Barrier(6), list[str]()

    def write(name: int) -> None:
        start.wait(10)
        line = base
        for turn in range(200):
            line = line.accumulate(turn % 8, array(name)).push(array(name))
            if seen(base) != {i: [float(i)] * 2 for i in range(8)}:
                wrong.append("the base changed")
        if [line.read(i)[0] for i in range(8)] != [i + 25.0 * name for i in range(8)] or len(line) != 208:
            wrong.append(f"the line of {name} is {line}")

    threads = [threading.Thread(target=write, args=(name,)) for name in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


# -------------------------------------------------------------------------------- lists in lists


def test_lists_in_a_list_are_added_element_by_element() -> None:
    a = TensorList().write(0, TensorList().write(1, array(1)))
    b = TensorList().write(0, TensorList().write(1, array(2)).write(2, array(3)))

    total = a.add(b).accumulate(0, TensorList().write(2, array(4)))

    assert seen(total.read(0)) == {1: [3.0, 3.0], 2: [7.0, 7.0]}
    assert seen(a.read(0)) == {1: [1.0, 1.0]}
    assert total.nbytes == 32


# ---------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("do", "text"),
    [
        (lambda x: x.read(1), "was written before, got index 1 of a list of size 3"),
        (lambda x: x.read(7), r"of a list of size 3 lies in \[0, 3\), got 7"),
        (lambda x: x.write(0, array(1)), "an index is written once, got 0 again"),
        (lambda x: x.write(3, array(1)), r"lies in \[0, 3\), got 3"),
        (lambda x: x.accumulate(-1, array(1)), r"lies in \[0, 3\), got -1"),
        (lambda x: TensorList().write(-1, array(1)), "an index of a list is at least 0, got -1"),
        (lambda x: x.push(array(1)), "cannot grow, got a push to one of 3"),
        (lambda x: x.values(), "index 1 was never written; it has size 3"),
        (lambda x: x.accumulate(0, np.zeros(3)), r"got \(3,\) for \(2,\)"),
        (lambda x: x.accumulate(0, TensorList()), r"got a list for \(2,\)"),
        (lambda x: x.add(TensorList(size=4)), "lists that are added have one size, got 3 and 4"),
        (lambda x: x.add(TensorList().write(3, array(1))), "got 3 and 4"),
        (lambda x: TensorList.of([array(1)] * 4, 3), r"lies in \[0, 3\), got 3"),
    ],
)
def test_what_cannot_be_is_a_typed_error(do: Any, text: str) -> None:
    x = TensorList(size=3).write(0, array(0))

    with pytest.raises(ListError, match=text):
        do(x)
    assert issubclass(ListError, KernelError)
    assert repr(x) == "<TensorList 1 of 3, 16 bytes>"
