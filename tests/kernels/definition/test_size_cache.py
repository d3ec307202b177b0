from __future__ import annotations

import numpy as np

from actorflow.kernels.definition.size_cache import SizeCache, cache_by_size


def test_what_was_asked_for_longest_ago_goes_when_bytes_run_out() -> None:
    table = SizeCache(1000)
    for key in "abcd":
        table.put(key, key, 250)
    assert table.get("a") == "a"

    table.put("e", "e", 250)

    assert [table.get(key) for key in "abcde"] == ["a", None, "c", "d", "e"]
    assert repr(table) == "<SizeCache of 4 values, 1000 of 1000 bytes>"


def test_a_value_that_is_put_again_counts_once() -> None:
    table = SizeCache(1000)

    table.put("a", 1, 200)
    table.put("a", 2, 100)

    assert table.get("a") == 2
    assert table.bytes == 100


def test_a_value_too_large_to_be_one_of_many_is_made_each_time() -> None:
    asked = []

    @cache_by_size(10_000)
    def zeros(n: int) -> np.ndarray:
        asked.append(n)
        return np.zeros(n, np.int8)

    for n in (10, 10, 5000, 5000):
        assert zeros(n).size == n

    assert asked == [10, 5000, 5000]
