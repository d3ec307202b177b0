"""How a run ends when it does not end well, and what of that speaks about the program.

| what ended it | what it is |
| --- | --- |
| an Exception, `pytest.fail` | a failure of the program: the run has an outcome |
| any other BaseException | an order to whoever runs the program: it comes through |
| an exception of hypothesis | likewise, also where it is the cause of another, as in an actor that assumed |

asyncio and actors wrap what was raised in them: in exception groups, as a cause. It is taken out again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator


def unwrap(error: BaseException) -> BaseException:
    """Returns the order in a group that holds one, else what it is given.

    Every task group makes a group of what left its body, apart from KeyboardInterrupt and SystemExit.
    """
    if isinstance(error, BaseExceptionGroup) and not isinstance(error, Exception):
        # A group that is no Exception holds an order.
        return next(leaf for leaf in _leaves(error) if not isinstance(leaf, Exception))
    return error


def is_failure(error: BaseException) -> bool:
    """Tells whether it says that the program is wrong."""
    if isinstance(error, Exception):
        # One of hypothesis ends an example, whatever the program does.
        return not _is_of_hypothesis(error)
    outcomes = sys.modules.get("_pytest.outcomes")  # only who has imported it can have raised it
    return outcomes is not None and isinstance(error, outcomes.Failed)


def origin(error: BaseException | None) -> tuple[object, ...]:
    """Returns what makes two failures the same: type and raising line, of the error and its causes."""
    found: list[object] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        trace = error.__traceback__
        # The line that raised is that of the innermost frame.
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        line = None if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        # As hypothesis tells failures apart: were a run told by another failure than its own, it would call
        # the test flaky.
        found.append((type(error), line))
        error = error.__cause__
    return tuple(found)


def of_hypothesis(error: BaseException | None) -> BaseException | None:
    """Returns the exception of hypothesis that is `error`, in it, or its cause: by `assume(False)`."""
    seen: set[int] = set()
    waiting = [] if error is None else [error]
    while waiting:
        each = waiting.pop()
        # causes may lead round in a ring
        if id(each) in seen:
            continue
        seen.add(id(each))
        if _is_of_hypothesis(each):
            return each
        if each.__cause__ is not None:
            waiting.append(each.__cause__)
        if isinstance(each, BaseExceptionGroup):
            # the first of a group is looked at first
            waiting += reversed(each.exceptions)
    return None


def _is_of_hypothesis(error: BaseException) -> bool:
    return any(kind.__module__ == "hypothesis.errors" for kind in type(error).__mro__)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
