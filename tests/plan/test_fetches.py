"""What is fed and does not fit: what the error says, and what it says to try."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import FeedError
from actorflow.plan.fetches import fit_feed
from actorflow.values.spec import Spec, spec

BYTES = spec("bytes", (None,))
FLOATS = spec("float32", (None,))


def refusal(wanted: Spec, value: Any) -> FeedError:
    with pytest.raises(FeedError) as caught:
        fit_feed("x", wanted, value)
    return caught.value


@pytest.mark.parametrize(
    ("wanted", "value", "what", "hint"),
    [
        (
            BYTES,
            np.array(["abc"]),
            "(None,) bytes, got (1,) str96",
            'encode its text: np.char.encode(array, "utf-8").astype(object)',
        ),
        (
            FLOATS,
            np.array(["abc"]),
            "(None,) float32, got (1,) str96",
            'encode its text: np.char.encode(array, "utf-8").astype(object), and declare the placeholder as "bytes"',
        ),
        (
            BYTES,
            np.array([b"abc"]),
            "(None,) bytes, got (1,) bytes24",
            "convert it with .astype('object'), or declare the placeholder as \"bytes\"",
        ),
        (
            FLOATS,
            np.array([1, 2], object),
            (
                "(None,) float32, got ndarray: elements are Python objects, or integers of more than 64 bits; "
                "give an array of numbers"
            ),
            None,
        ),
        (
            BYTES,
            np.array([1.0]),
            "(None,) bytes, got (1,) float64",
            "feed bytes, or declare the placeholder with that spec; af.strings.as_bytes makes bytes of a tensor of numbers",
        ),
        (
            FLOATS,
            np.array([1.0]),
            "(None,) float32, got (1,) float64",
            "convert it with .astype('float32'), or declare the placeholder with that spec",
        ),
        (
            FLOATS,
            np.zeros((1, 1), "float32"),
            "(None,) float32, got (1, 1) float32",
            "reshape it, or declare the placeholder with that spec",
        ),
        (
            FLOATS,
            [[1, "4"]],
            "(None,) float32, got list: elements must be numbers, got str '4' at index (0, 1)",
            None,
        ),
        (FLOATS, None, "(None,) float32, got NoneType: elements must be numbers, got NoneType None", None),
    ],
)
def test_the_error_shows_both_and_what_to_try(wanted: Spec, value: Any, what: str, hint: str | None) -> None:
    error = refusal(wanted, value)

    assert error.what == f"feed 'x' must fit {what}"
    assert error.hint == hint


def test_the_hint_for_text_gives_what_can_be_fed() -> None:
    text = np.array(["abc", "æ"])

    fed = fit_feed("x", BYTES, np.char.encode(text, "utf-8").astype(object))

    assert fed.tolist() == [b"abc", "æ".encode()]


def test_a_tensor_is_no_value() -> None:
    with af.Graph():
        x, v = af.placeholder("float32", (None,), name="x"), af.Variable([1.0], name="v")

    for value, shown in ((x, "<Tensor x:0 (None,) float32>"), (v, "<Variable v (1,) float32>")):
        error = refusal(FLOATS, value)

        assert error.what == f"feed 'x' must fit (None,) float32, got the symbolic {shown}"
        assert error.hint == "a feed is a value: run the tensor first, and feed what it gives"


def test_an_index_out_of_bounds_says_where_to_look() -> None:
    with af.Graph() as graph:
        x = af.placeholder("int32", (None,), name="x")
        y = af.gather(af.constant([1.0, 2.0, 3.0]), x)

    async def main() -> Any:
        async with af.Session(graph) as session:
            return await session.run(y, {x: [7]})

    with pytest.raises(af.errors.KernelError, match="index 7 is out of bounds") as caught:
        af.run(main())

    assert caught.value.hint == "look at its indices; af.clip keeps them within bounds"
