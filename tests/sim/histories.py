"""Draws histories, and judges small ones the slow way: every order of every choice of open operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations, permutations
from typing import Any

from hypothesis import strategies as st

from actorflow.sim.checkers import Call, Model, Refusal
from actorflow.sim.history import History, Operation, Recorder, Status, Value


class StillClock:
    """Time stands still: the checkers look at event numbers only."""

    def now(self) -> float:
        return 0.0


# (op, args, possible results) of one operation.
Asked = tuple[str, tuple[Value, ...], Value]

small = st.integers(0, 2)
register_calls: st.SearchStrategy[Asked] = st.one_of(
    st.tuples(st.just("read"), st.just(()), st.none() | small),
    st.tuples(st.just("write"), st.tuples(small), st.none()),
    st.tuples(st.just("cas"), st.tuples(small, small), st.booleans()),
)
mutex_calls: st.SearchStrategy[Asked] = st.tuples(
    st.sampled_from(["acquire", "release"]), st.just(()), st.sampled_from([None, None, False])
)
kv_calls: st.SearchStrategy[Asked] = st.one_of(
    st.tuples(st.just("get"), st.just(()), st.sampled_from(["", "a", "b", "ab", "ba"])),
    st.tuples(st.just("put"), st.tuples(st.sampled_from(["", "a"])), st.none()),
    st.tuples(st.just("append"), st.tuples(st.sampled_from(["a", "b"])), st.none()),
)


@st.composite
def histories(
    draw: st.DrawFn,
    calls: st.SearchStrategy[Asked],
    most: int = 6,
    keys: Sequence[Value] = (None,),
    statuses: Sequence[Status] = (Status.OK, Status.OK, Status.OK, Status.INFO, Status.FAIL),
) -> History:
    """Any interleaving of one to `most` operations of any results: some are right and some are not."""
    asked = draw(
        st.lists(
            st.tuples(calls, st.sampled_from(keys), st.sampled_from(statuses)), min_size=1, max_size=most
        )
    )
    recorder = Recorder(StillClock())
    running: list[Callable[[], None]] = []
    waiting = list(enumerate(asked))
    while waiting or running:
        turn = draw(st.integers(0, len(running))) if waiting else draw(st.integers(1, len(running)))
        if turn:
            running.pop(turn - 1)()
            continue
        client, ((op, args, result), key, status) = waiting.pop(0)
        pending = recorder.invoke(client, op, *args, key=key)
        ends: dict[Status, Callable[[], None]] = {
            Status.OK: partial(pending.ok, result),
            Status.FAIL: pending.fail,
            Status.INFO: pending.info,
        }
        running.append(ends[status])
    return recorder.history()


def accepts(order: Iterable[Operation], model: Model) -> bool:
    """Whether the model can do the operations in that order."""
    states: dict[Value, Any] = {}
    for operation in order:
        seen = Call.of(operation)
        key = model.key(seen)
        state = model.step(states.get(key, model.initial(key)), seen)
        if isinstance(state, Refusal):
            return False
        states[key] = state
    return True


def in_real_time(order: Sequence[Operation]) -> bool:
    """Whether no operation stands before one that had returned before it was invoked."""
    return not any(
        later.returned is not None and later.returned < earlier.invoked
        for earlier, later in combinations(order, 2)
    )


def in_program_order(order: Sequence[Operation]) -> bool:
    """Whether no operation stands before one of the same client that had returned before it was invoked."""
    return not any(
        later.client == earlier.client and later.returned is not None and later.returned < earlier.invoked
        for earlier, later in combinations(order, 2)
    )


def has_an_order(
    history: Iterable[Operation], model: Model, agrees: Callable[[Sequence[Operation]], bool] = in_real_time
) -> bool:
    """The definition, word for word: some order of some choice of the open operations is accepted."""
    known = [operation for operation in history if operation.status is Status.OK]
    unknown = [operation for operation in history if operation.status is Status.INFO]
    return any(
        agrees(order) and accepts(order, model)
        for count in range(len(unknown) + 1)
        for happened in combinations(unknown, count)
        for order in permutations([*known, *happened])
    )
