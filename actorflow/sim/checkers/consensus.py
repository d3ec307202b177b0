"""Whether all who decide decide the same set, of what was proposed.

For each key (a step, say), with D the sets of the OK decisions:

    agreement   all of D are equal
    validity    every element was proposed, by a proposal that did not fail, before the decision returned
    size        every set has m distinct elements, when m is given

A decision or proposal of unknown outcome binds nobody, but may be why an element was decided.
That everybody decides in the end is not judged: a history that ends early is no violation.
"""

from __future__ import annotations

from collections.abc import Iterable

from actorflow.errors import HistoryError, pluralise
from actorflow.sim.checkers.subject import nothing, overlooks
from actorflow.sim.checkers.timeline import call
from actorflow.sim.checkers.verdict import Verdict, listed
from actorflow.sim.history import Operation, Status, Value
from actorflow.sim.history.history import operations_of
from actorflow.sim.history.operation import shorten_value
from actorflow.sim.settings import check_whole


def agreement(
    history: Iterable[Operation],
    *,
    m: int | None = None,
    propose: str = "propose",
    decide: str = "decide",
) -> Verdict:
    """Returns whether the decisions of each key agree, and are of proposed elements.

    Args:
        history: Proposals, with the element as their one argument, and decisions, with a tuple of
            elements as their result, in any order. Each key is judged alone.
        m: How many distinct elements a decision has; any number when left out.
        propose: The name of the proposals.
        decide: The name of the decisions.

    Raises:
        HistoryError: A proposal or a decision is not recorded in that form.
        ConfigError: What is given is no history, or `m` is below 1.
    """
    operations = operations_of(history)
    if m is not None:
        check_whole("m", m, 1)
    proposed: dict[Value, dict[Value, int]] = {}
    decided: dict[Value, list[tuple[Operation, tuple[Value, ...]]]] = {}
    for operation in operations:
        if operation.op == propose and operation.status is not Status.FAIL:
            if len(operation.args) != 1:
                message = f"a proposal has one argument, got {call(operation)} by client {operation.client}"
                raise HistoryError(message, hint="record the element as one value")
            (element,) = operation.args
            first = proposed.setdefault(operation.key, {})
            first[element] = min(first.get(element, operation.invoked), operation.invoked)
        elif operation.op == decide and operation.status is Status.OK:
            decided.setdefault(operation.key, []).append((operation, _elements(operation)))
    wrong = []
    for key, decisions in decided.items():
        on = "" if key is None else f"on {shorten_value(key)}: "
        first_decision, first_set = decisions[0]
        for operation, elements in decisions:
            findings = _invalid(operation, elements, proposed.get(key, {}), m)
            if frozenset(elements) != frozenset(first_set):
                other = f"{_said(first_decision)} {_show(first_set)}"
                findings.append(f"{_said(operation)} decided {_show(elements)}, but {other}")
            wrong += [on + finding for finding in findings]
    if wrong:
        return Verdict("agreement", False, pluralise(len(wrong), "finding"), listed(wrong))
    if overlooks(operations, {decide}, {propose}):
        return nothing("agreement", operations, propose=propose, decide=decide)
    count = pluralise(sum(len(decisions) for decisions in decided.values()), "decision")
    return Verdict("agreement", True, f"{count} on {pluralise(len(decided), 'key')}, all agree")


def _elements(operation: Operation) -> tuple[Value, ...]:
    if not isinstance(operation.result, tuple):
        message = f"a decision gives a tuple of elements, got {call(operation)} by client {operation.client}"
        raise HistoryError(message, hint="record the decided set as a tuple, also when it has one element")
    return operation.result


def _invalid(
    operation: Operation, elements: tuple[Value, ...], proposed: dict[Value, int], m: int | None
) -> list[str]:
    findings = []
    for element in dict.fromkeys(elements):
        begun = proposed.get(element)
        if begun is None:
            findings.append(f"{_said(operation)} decided {shorten_value(element)}, which nobody proposed")
        elif begun > (operation.returned or 0):
            findings.append(
                f"{_said(operation)} decided {shorten_value(element)} before it was proposed, at event "
                f"{begun}"
            )
    distinct = len(frozenset(elements))
    if distinct < len(elements):
        findings.append(f"{_said(operation)} decided {_show(elements)}, in which an element is twice")
    if m is not None and distinct != m:
        findings.append(f"{_said(operation)} decided {pluralise(distinct, 'distinct element')}, must be {m}")
    return findings


def _show(elements: tuple[Value, ...]) -> str:
    """The elements in one order, whatever order they were decided in."""
    return "{" + ", ".join(sorted(shorten_value(element) for element in elements)) + "}"


def _said(operation: Operation) -> str:
    return f"client {operation.client} (event {operation.returned})"
