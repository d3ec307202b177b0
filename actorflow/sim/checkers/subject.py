"""What a checker is given, looked at before it judges: a slip of the pen must not pass for a proof.

A history without an operation that the checker looks at proves nothing, whatever the program did: its
verdict is unknown. What cannot be a history, a model or a bound is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from actorflow.errors import ConfigError
from actorflow.sim.checkers.models import Call, Model, Register
from actorflow.sim.checkers.verdict import Verdict
from actorflow.sim.history import Operation
from actorflow.sim.history.history import operations_of
from actorflow.sim.history.operation import shorten_value
from actorflow.sim.settings import check_whole

_NAMES = 8  # how many names of operations are shown
_METHODS = ("key", "initial", "step", "observes")


def overlooks(operations: Iterable[Operation], needed: Set[str], besides: Set[str] = frozenset()) -> bool:
    """Tells whether a checker that needs one of `needed`, and looks at `besides` too, judges nothing.

    A run may well have had no reason for any of `needed`. Where there is none, and an operation of
    another name instead, that is the more likely reason.
    """
    there = {operation.op for operation in operations}
    return not there & needed and (not there or not there <= besides)


def nothing(checker: str, operations: Sequence[Operation], **names: str) -> Verdict:
    """Returns the verdict on a history in which there is nothing to judge.

    Args:
        checker: Who judges.
        operations: What it was given.
        **names: The operations that it looks at, by the parameters that name them.
    """
    there = list(dict.fromkeys(operation.op for operation in operations))
    has = ", ".join(repr(name) for name in there[:_NAMES]) + ", ..." * (len(there) > _NAMES)
    looks = f"looks at {' and '.join(repr(name) for name in names.values())}, " if names else ""
    what = f"nothing to judge: {looks}the history {f'has {has}' if there else 'is empty'}"
    hint = "record what clients ask for and are told"
    if there:
        hint = f"pass {' and '.join(f'{name}=' for name in names)} as the history names them"
    return Verdict(checker, None, what, hint=hint)


def check_model(model: object) -> None:
    """Raises ConfigError unless `model` can be judged against."""
    hint = "pass Register(), KeyValue(), Mutex(), MultiRegister(), or a model of your own"
    if isinstance(model, type):
        message = f"a model is an object, got the class {model.__name__}"
        raise ConfigError(message, hint=f"pass {model.__name__}()")
    lacks = [name for name in _METHODS if not callable(getattr(model, name, None))]
    if lacks:
        message = f"a model has {', '.join(_METHODS)}, got {shorten_value(model)} without {', '.join(lacks)}"
        raise ConfigError(message, hint=hint)


def check_known(operations: Iterable[Operation], model: Model) -> None:
    """Raises the model's own HistoryError for an operation that it does not know by name.

    A search asks about none that failed, and about one of unknown outcome only where it needs it: an
    unknown name among those would be passed over.
    """
    known = getattr(model, "operations", None)
    if known is None:
        return  # a model may keep its names to itself
    for operation in operations:
        if operation.op not in known:
            call = Call.of(operation)
            model.step(model.initial(model.key(call)), call)


def searchable(history: object, model: Model | None, budget: object) -> tuple[tuple[Operation, ...], Model]:
    """Returns the operations and the model of a checker that searches; a register when none is given.

    Raises:
        HistoryError: There is an operation that the model does not know.
        ConfigError: What is given is no history, no model, or no budget.
    """
    operations = operations_of(history)
    model = Register() if model is None else model
    check_model(model)
    check_whole("budget", budget, 1)
    check_known(operations, model)
    return operations, model
