from __future__ import annotations

from typing import Any

import pytest

from actorflow.sim.checkers import Call, KeyValue, Model, MultiRegister, Mutex, Refusal, Register


def unknown(op: str, *args: Any) -> Call:
    return Call(op, args, None, known=False)


X1 = (("x", 1),)


@pytest.mark.parametrize(
    ("model", "state", "call", "after"),
    [
        (Register(), 1, Call("read", (), 1), 1),
        (Register(), 1, Call("read", (), 2), "read returned 2, the value was 1"),
        (Register(), None, Call("read", (), None), None),
        (Register(), 1, Call("write", (2,)), 2),
        (Register(), 1, Call("cas", (1, 2), True), 2),
        (Register(), 3, Call("cas", (1, 2), False), 3),
        (Register(), 3, Call("cas", (1, 2), True), "cas from 1 matched, the value was 3"),
        (Register(), 1, Call("cas", (1, 2), False), "cas from 1 did not match, the value was 1"),
        (Register(), 1, unknown("cas", 1, 2), 2),
        (Register(), 3, unknown("cas", 1, 2), 3),
        (Register(), 1, unknown("read"), 1),
        (KeyValue(), "a", Call("get", (), "a"), "a"),
        (KeyValue(), "a", Call("get", (), "b"), "get returned 'b', the value was 'a'"),
        (KeyValue(), "a", Call("put", ("b",)), "b"),
        (KeyValue(), "a", Call("append", ("b",)), "ab"),
        (KeyValue(()), (1,), Call("append", ((2,),)), (1, 2)),
        (Mutex(), "free", Call("acquire"), "held"),
        (Mutex(), "held", Call("acquire"), "acquire took effect, the mutex was held"),
        (Mutex(), "held", Call("acquire", (), False), "held"),
        (Mutex(), "free", Call("acquire", (), False), "acquire was refused, the mutex was free"),
        (Mutex(), "held", Call("release"), "free"),
        (Mutex(), "free", Call("release"), "release took effect, the mutex was free"),
        (Mutex(), "free", Call("release", (), False), "free"),
        (MultiRegister(), X1, Call("txn", (), (("read", "x", 1), ("write", "y", 2))), (*X1, ("y", 2))),
        (MultiRegister(), X1, Call("txn", (), (("read", "y", None),)), X1),
        (
            MultiRegister(),
            X1,
            Call("txn", (), (("read", "x", 2),)),
            "the txn read 2 from 'x', the value was 1",
        ),
        (MultiRegister(), X1, Call("txn", (), (("write", "x", 2), ("read", "x", 2))), (("x", 2),)),
        (MultiRegister(), X1, Call("txn", (), (("write", "x", None),)), ()),
        (MultiRegister(), X1, unknown("txn", ("read", "x", None), ("write", "x", 5)), (("x", 5),)),
    ],
)
def test_each_step_of_each_model(model: Model, state: Any, call: Call, after: Any) -> None:
    found = model.step(state, call)

    assert (found.why if isinstance(found, Refusal) else found) == after
    assert not model.observes(call) or found == state or isinstance(found, Refusal)


@pytest.mark.parametrize("model", [Register(), KeyValue(), Mutex()])
def test_keys_are_objects_of_their_own(model: Model) -> None:
    assert model.key(Call("read", key="x")) == "x"
    assert MultiRegister().key(Call("txn", key="x")) is None


def test_objects_start_as_they_are_told() -> None:
    assert Register(3).initial("x") == 3
    assert KeyValue().initial("x") == ""
    assert Mutex(held=True).initial(None) == "held"
    assert MultiRegister({"y": 1, "x": 0, "z": None}).initial(None) == (("x", 0), ("y", 1))


def test_a_refusal_shows_long_values_cut() -> None:
    refusal = Refusal("got {}", "x" * 99)

    assert repr(refusal) == f"Refusal({refusal.why!r})"
    assert len(refusal.why) == 44
