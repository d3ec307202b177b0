from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import HistoryError
from actorflow.sim import checkers
from actorflow.sim.history import History, Recorder, Status
from tests.sim.histories import StillClock
from tests.support.strategies import examples


def pushes(answers: list[tuple[int, bool, bool]], remembers: bool) -> History:
    """Workers push one contribution a step until it is acknowledged; requests and replies get lost.

    Each answer says who pushes next, whether the request arrives, and whether the reply does. A shard that
    does not remember what it applied applies a retry again.
    """
    recorder, applied, steps = Recorder(StillClock()), set(), [0, 0, 0]
    for incarnation, (worker, arrives, replies) in enumerate(answers):
        step = steps[worker]
        push = recorder.invoke(worker, "push", step, 0, incarnation=incarnation)
        if arrives:
            fresh = (worker, step) not in applied or not remembers
            applied.add((worker, step))
            recorder.invoke("shard", "apply", worker, step, 0).ok(fresh)
        if arrives and replies:
            push.ok()
            steps[worker] += 1
        else:
            push.info("timed out")
    return recorder.history()


LOST_REPLY = [(0, True, False), (0, True, True)]


def test_a_retry_that_is_applied_again_is_caught_and_one_that_is_remembered_passes() -> None:
    twice = checkers.exactly_once(pushes(LOST_REPLY, remembers=False))

    assert twice.explain() == (
        "exactly_once: violated, 1 of 1 contribution is not right\n"
        "  (0, 0, 0) was applied 2 times, at events 1, 4"
    )
    assert checkers.exactly_once(pushes(LOST_REPLY, remembers=True)).ok


def finding(*events: tuple[str, Status]) -> str:
    recorder = Recorder(StillClock())
    for n, (op, status) in enumerate(events):
        args = (1, 0) if op == "push" else (7, 1, 0)
        pending = recorder.invoke(7 if op == "push" else "shard", op, *args, incarnation=n)
        {Status.OK: pending.ok, Status.FAIL: pending.fail, Status.INFO: pending.info}[status]()
    return checkers.exactly_once(recorder.history()).explain()


def test_what_can_go_wrong_is_told_apart() -> None:
    assert "(7, 1, 0) was acknowledged to client 7 at event 1 and never applied" in finding(
        ("push", Status.OK)
    )
    assert "was never sent, and was applied at event 0" in finding(("apply", Status.OK))
    assert "failed every time it was sent" in finding(("push", Status.FAIL), ("apply", Status.OK))
    assert "was applied at event 0, before it was sent" in finding(("apply", Status.OK), ("push", Status.OK))


def test_unknown_outcomes_count_as_it_fits() -> None:
    assert ": ok" in finding(("push", Status.INFO))
    assert ": ok" in finding(("push", Status.INFO), ("apply", Status.OK))
    assert ": ok" in finding(("push", Status.OK), ("apply", Status.INFO))
    assert ": ok" in finding(("push", Status.OK), ("apply", Status.INFO), ("apply", Status.OK))
    assert "never applied" in finding(("push", Status.OK), ("apply", Status.FAIL))


def test_shards_are_judged_apart() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke(0, "push", 1, 0, key="a").ok()
    recorder.invoke("shard", "apply", 0, 1, 0, key="b").ok()

    verdict = checkers.exactly_once(recorder.history())

    assert "(0, 1, 0) on 'a' was acknowledged" in verdict.explain()
    assert "(0, 1, 0) on 'b' was never sent" in verdict.explain()


def test_an_operation_without_identity_is_an_error() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke(0, "push", 1).ok()

    with pytest.raises(HistoryError, match=r"(?s)needs the arguments step, seq.*pass sent_as="):
        checkers.exactly_once(recorder.history())


answers = st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), min_size=1, max_size=20)


@given(answers, st.data())
@settings(max_examples=examples(100))
def test_any_losses_pass_and_one_application_more_or_less_is_caught(
    drawn: list[tuple[int, bool, bool]], data: st.DataObject
) -> None:
    history = pushes(drawn, remembers=True)
    assert checkers.exactly_once(history).ok

    applications = [o for o in history if o.op == "apply" and o.result is True]
    if applications:
        chosen = data.draw(st.sampled_from(applications))
        doubled = [*history, chosen]
        assert checkers.exactly_once(doubled).ok is False
        acknowledged = {(o.client, *o.args) for o in history if o.op == "push" and o.status is Status.OK}
        if chosen.args in acknowledged:
            lost = [o for o in history if o is not chosen]
            assert checkers.exactly_once(lost).ok is False


@given(answers)
@settings(max_examples=examples(100))
def test_a_shard_that_forgets_is_caught_exactly_when_a_retry_reached_it_twice(
    drawn: list[tuple[int, bool, bool]],
) -> None:
    history = pushes(drawn, remembers=False)
    applied = [o.args for o in history if o.op == "apply"]

    assert checkers.exactly_once(history).ok is (len(applied) == len(set(applied)))


def test_a_sending_that_failed_excuses_no_application_before_the_real_one() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke(0, "push", 0, 0).fail("no route")
    recorder.invoke("shard", "apply", 0, 0, 0).ok()
    recorder.invoke(0, "push", 0, 0).ok()

    verdict = checkers.exactly_once(recorder.history())

    assert verdict.ok is False
    assert "before it was sent" in verdict.explain()
