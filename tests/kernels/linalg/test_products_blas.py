"""How products of two matrices are cut, and that they are the same products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actorflow.kernels.device import parallel_for
from actorflow.kernels.device.parallel_for import HERE
from actorflow.kernels.linalg import products_blas
from actorflow.kernels.linalg.products_blas import Blocks, few, product, shares

SIZES = st.one_of(st.integers(1, 80), st.sampled_from([128, 256, 512, 650, 1000, 1024, 2048, 4096]))


@given(SIZES, SIZES, SIZES, st.sampled_from(["NN", "NT", "TN", "TT"]))
def test_blocks_are_small_products_that_fill_the_whole(m: int, k: int, n: int, lies: str) -> None:
    blocks = few(m, k, n, lies)

    if blocks is not None:
        assert m * k * n > 10**6
        assert min(m, k) in range(2, 65)
        assert blocks.m * blocks.k * blocks.n <= 10**6
        assert (m % blocks.m, k % blocks.k, n % blocks.n) == (0, 0, 0)


@pytest.mark.parametrize(
    ("sizes", "lies", "blocks"),
    [
        ((20, 512, 2048), "NN", Blocks(20, 512, 64)),
        ((20, 1024, 2048), "NN", Blocks(20, 512, 64)),
        ((20, 2048, 512), "NT", Blocks(20, 2048, 16)),
        ((512, 20, 2048), "TN", Blocks(512, 20, 64)),
        ((1024, 20, 4096), "TN", Blocks(512, 20, 64)),
        ((20, 64, 64), "NN", None),  # small as it is
        ((128, 512, 2048), "NN", None),  # enough rows to repay what is packed
        ((20, 512, 2000), "NN", None),  # no even number of blocks
        ((64, 1024, 4096), "NN", None),  # in more than four pieces along k
        ((20, 512, 2048), "TT", None),
    ],
)
def test_few_rows_are_multiplied_in_blocks(
    sizes: tuple[int, int, int], lies: str, blocks: Blocks | None
) -> None:
    assert few(*sizes, lies) == blocks


@given(SIZES, SIZES, SIZES, st.sampled_from([1, 16, 64]))
@example(700, 10_000, 512, 1)
def test_parts_follow_each_other_from_end_to_end(m: int, k: int, n: int, lanes: int) -> None:
    parts = shares(m, k, n, lanes)

    size = {"m": m, "k": k, "n": n}[parts.axis]
    ends = [0, *(high for _, high in parts.bounds)]
    assert [low for low, _ in parts.bounds] == ends[:-1]
    assert ends[-1] == size
    assert all(low % max(lanes, 32) == 0 for low, _ in parts.bounds)
    assert len(parts.bounds) <= 4
    assert all(low < high for low, high in parts.bounds)
    assert lanes == 1 or parts.axis == "n"


def test_large_products_are_cut_along_their_longest_axis() -> None:
    assert shares(700, 512, 10_000).axis == "n"
    assert shares(700, 10_000, 512).axis == "k"
    assert shares(10_000, 700, 512).axis == "m"


def test_the_first_part_is_longer_since_others_begin_later() -> None:
    (first, second) = shares(20, 512, 2048, 64).bounds

    assert first == (0, 1152)
    assert second == (1152, 2048)


CUTS = [
    (20, 512, 2048, "NN"),
    (32, 1024, 1024, "NN"),  # summed over four pieces of k
    (20, 2048, 512, "NT"),
    (32, 4096, 256, "NT"),  # over two
    (48, 512, 1024, "NT"),  # the other way round
    (20, 5000, 20, "NT"),  # where few rows are on both sides
    (512, 20, 2048, "TN"),
    (1024, 32, 1024, "TN"),
    (1024, 32, 1024, "TT"),
    (300, 900, 310, "NN"),  # shared along k
    (300, 310, 900, "TN"),  # n
    (900, 310, 300, "NT"),  # m
    (700, 1100, 710, "NN"),  # in four
    (1, 2048, 2048, "NN"),
]


def lying(x: Any, how: str) -> Any:
    """The same matrix, which lies transposed or as it is."""
    return np.ascontiguousarray(x.T).T if how == "T" else x


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "k", "n", "lies"), CUTS)
def test_a_product_is_the_same_however_it_is_cut(
    m: int, k: int, n: int, lies: str, dtype: str, blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products_blas, "openblas_core", lambda: "skylakex" if blocks else "haswell")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 10, shape).astype(dtype) for shape in ((m, k), (k, n)))  # every sum is exact

    told = product(lying(a, lies[0]), lying(b, lies[1]))

    np.testing.assert_array_equal(told, np.matmul(a, b))
    assert told.dtype == dtype
    assert told.flags.c_contiguous


def test_views_that_blas_cannot_read_and_a_matrix_by_itself_are_the_same_product() -> None:
    x = np.random.default_rng(0).integers(-9, 10, (600, 600)).astype("float32")

    np.testing.assert_array_equal(product(x[::2], x[:, ::2]), np.matmul(x[::2].copy(), x[:, ::2].copy()))
    np.testing.assert_array_equal(product(x.T, x), np.matmul(x.T.copy(), x))


@pytest.mark.parametrize(("m", "k", "n", "lies"), CUTS)
def test_bits_do_not_depend_on_who_had_time(
    m: int, k: int, n: int, lies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype("float32") for shape in ((m, k), (k, n)))
    a, b = lying(a, lies[0]), lying(b, lies[1])
    alone = product(a, b)
    shared: list[int] = []

    def backwards(parts: list[parallel_for.Part]) -> None:
        shared.append(len(parts))
        for part in reversed(parts):
            part()

    monkeypatch.setattr(products_blas, "together", backwards)

    assert product(a, b).tobytes() == alone.tobytes()
    assert shared
    assert HERE.crew is None
