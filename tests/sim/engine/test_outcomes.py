from __future__ import annotations

import pytest
from hypothesis.errors import InvalidArgument, StopTest, UnsatisfiedAssumption

from actorflow.errors import HandlerError
from actorflow.sim.engine.outcomes import is_failure, of_hypothesis, unwrap


class Order(BaseException):
    """What is no Exception."""


def test_an_order_is_taken_out_of_the_groups_around_it() -> None:
    order = Order()
    inner = BaseExceptionGroup("inner", [ValueError(), order])

    assert unwrap(BaseExceptionGroup("outer", [KeyError(), inner])) is order
    assert unwrap(order) is order


def test_groups_of_exceptions_stay() -> None:
    group = ExceptionGroup("both", [ValueError(), KeyError()])

    assert unwrap(group) is group


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ValueError(), True),
        (AssertionError(), True),
        (pytest.fail.Exception("failed"), True),
        (pytest.skip.Exception("skipped"), False),
        (KeyboardInterrupt(), False),
        (SystemExit(1), False),
        (GeneratorExit(), False),
        (Order(), False),
        (UnsatisfiedAssumption(), False),
        (StopTest(0), False),
    ],
)
def test_a_failure_says_that_the_program_is_wrong(error: BaseException, failure: bool) -> None:
    assert is_failure(error) == failure


def assumed() -> UnsatisfiedAssumption:
    return UnsatisfiedAssumption("what `assume(False)` raises")


def test_what_hypothesis_raised_is_found_as_cause_and_in_groups() -> None:
    own = assumed()
    handler = HandlerError("handler of 'a' raised")
    handler.__cause__ = own

    assert of_hypothesis(own) is own
    assert of_hypothesis(ExceptionGroup("unhandled", [ValueError(), handler])) is own
    assert of_hypothesis(InvalidArgument("no")) is not None


def test_what_was_only_on_the_way_of_another_error_is_not_looked_for() -> None:
    error = ValueError()
    error.__context__ = assumed()

    assert of_hypothesis(error) is None
    assert of_hypothesis(None) is None


def test_causes_in_a_ring_end() -> None:
    one, two = ValueError(), KeyError()
    one.__cause__, two.__cause__ = two, one

    assert of_hypothesis(one) is None
