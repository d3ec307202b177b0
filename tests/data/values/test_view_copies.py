"""Elements that are kept own their memory, wherever they were cut from something larger."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from actorflow.data.pipeline import Pipeline
from actorflow.data.run.pipeline_plan import parts
from actorflow.data.values.collate import rows
from actorflow.data.values.view_copies import copy_views
from tests.data import functions
from tests.data.pipelines import numbers_from
from tests.data.reading import run

Pair = namedtuple("Pair", "a b")


def arrays_of(value: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(value, dict):
        return [array for part in value.values() for array in arrays_of(part)]
    if isinstance(value, tuple | list):
        return [array for part in value for array in arrays_of(part)]
    return [value] if isinstance(value, np.ndarray) else []


def test_views_become_copies_and_all_else_stays() -> None:
    whole = np.arange(6)
    kept = np.arange(3)
    given = {"a": whole[:2], "b": (kept, [whole[2:3], "text"]), "c": Pair(whole[3:], 5)}

    made = copy_views(given)

    assert all(array.base is None for array in arrays_of(made))
    assert [array.tolist() for array in arrays_of(made)] == [[0, 1], [0, 1, 2], [2], [3, 4, 5]]
    assert made["b"][0] is kept
    assert made["b"][1][1] == "text"
    assert type(made["c"]) is Pair
    assert type(made["b"][1]) is list


@pytest.mark.parametrize("dtype", [np.float32, [("x", np.int8), ("y", np.int8)]])
def test_rows_of_a_batch_do_not_keep_it(dtype: Any) -> None:
    batch = np.ones((4, 3), dtype)

    for whole in (batch, batch[0]):
        assert not any(np.shares_memory(row, whole) for row in rows(whole))
    assert [row.tolist() for row in rows(batch)] == batch.tolist()


def test_what_a_process_gives_does_not_keep_its_neighbours() -> None:
    async def main() -> list[Any]:
        sized = Pipeline(numbers_from(200)).map(functions.grown, processes=1)
        return [v async for v in sized.filter(lambda v: v.size % 50 == 0).shuffle(10)]

    found = run(main())

    assert sorted(v.size for v in found) == [0, 50, 100, 150]
    assert [v.base for v in found] == [None] * 4


def test_only_what_is_batched_at_once_is_not_copied() -> None:
    mapped = Pipeline(numbers_from(5)).map(functions.same, processes=1)
    cases = [mapped, mapped.shuffle(3), mapped.batch(2), mapped.padded_batch(2), mapped.prefetch(2).batch(2)]

    assert [parts(p._stages)[0].stacks for p in cases] == [False, False, True, True, False]
