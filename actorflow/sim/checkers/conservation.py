"""Whether a queue keeps what is put into it: nothing lost, nothing doubled, nothing invented, in order.

For each element x, with the numbers of OK and unknown (info) operations on it,

    taken(x) + left(x) <= put_ok(x) + put_info(x)      nothing doubled or invented
    taken(x) + left(x) >= put_ok(x)                    nothing lost, but for what unknown takes may have

and no take of x returns before a put of x was invoked. A take of unknown outcome may have taken any one
element. Order is judged by producer: of two elements that one producer put one after the other, the
later is not taken by a take that returned before the take of the earlier was invoked, and not while
the earlier stays behind.

Deviation from linearizability of a FIFO queue: elements of different producers may overtake each
other, as they do on their way to a queue that is an actor. It is also linear in the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from actorflow.errors import HistoryError, pluralise
from actorflow.sim.checkers.subject import nothing, overlooks
from actorflow.sim.checkers.verdict import Verdict, listed
from actorflow.sim.history import Client, Operation, Status, Value
from actorflow.sim.history.history import operations_of
from actorflow.sim.history.operation import shorten_value


def queue(
    history: Iterable[Operation],
    *,
    left: Sequence[Value] | None = (),
    ordered: bool = True,
    put: str = "enqueue",
    take: str = "dequeue",
) -> Verdict:
    """Returns whether a queue lost, doubled, invented or reordered nothing.

    Args:
        history: Operations on one queue: `put` has the element as its argument, `take` as its result.
        left: What was still in the queue at the end, head first; None when nobody looked, and then
            nothing can be called lost.
        ordered: Whether each producer's elements must come out in the order in which it put them. For
            that no element may be put twice: number them, as (producer, n).
        put: The name of the operations that add an element.
        take: The name of those that remove one.

    Raises:
        HistoryError: A put is not recorded in that form.
        ConfigError: What is given is no history.
    """
    operations = operations_of(history)
    happened = [operation for operation in operations if operation.status is not Status.FAIL]
    puts = [operation for operation in happened if operation.op == put]
    takes = [operation for operation in happened if operation.op == take]
    for operation in puts:
        if len(operation.args) != 1:
            message = f"{put} has one argument, the element, got {operation}"
            raise HistoryError(message, hint="record the element as one value")
    wrong = _counted(puts, takes, left)
    if ordered:
        wrong += _in_order(puts, takes, left)
    if wrong:
        return Verdict("queue", False, pluralise(len(wrong), "finding"), listed(wrong))
    needed = {take} if left is None else {put, take}
    if overlooks(operations, needed, {put}):
        return nothing("queue", operations, put=put, take=take)
    return Verdict("queue", True, f"{pluralise(len(puts), 'element')} put, {len(takes)} taken")


def _counted(puts: list[Operation], takes: list[Operation], left: Sequence[Value] | None) -> list[str]:
    wrong = []
    put_known = Counter(operation.args[0] for operation in puts if operation.status is Status.OK)
    put_ever: dict[Value, list[int]] = {}
    for operation in puts:
        put_ever.setdefault(operation.args[0], []).append(operation.invoked)
    out: dict[Value, list[tuple[int, str]]] = {}
    for operation in sorted(takes, key=lambda operation: operation.returned or 0):
        if operation.status is Status.OK:
            said = f"taken by client {operation.client} at event {operation.returned}"
            out.setdefault(operation.result, []).append((operation.returned or 0, said))
    for element in left or ():
        out.setdefault(element, []).append((_END, "left in the queue"))
    for element, ends in out.items():
        begun = sorted(put_ever.get(element, []))
        for n, (event, said) in enumerate(ends):
            if n >= len(begun):
                times = f"put {pluralise(len(begun), 'time')} and there {n + 1} times"
                often = times if begun else "never put"
                wrong.append(f"{shorten_value(element)} was {often}: {said}")
            elif begun[n] > event:
                wrong.append(f"{shorten_value(element)} was {said}, before it was put at event {begun[n]}")
    if left is None:
        return wrong
    lost = [x for x, count in put_known.items() for _ in range(count - len(out.get(x, ())))]
    excused = sum(operation.status is Status.INFO for operation in takes)
    if len(lost) > excused:
        some = ", ".join(shorten_value(element) for element in lost[:5])
        verb = "was" if len(lost) == 1 else "were"
        does = "does" if excused == 1 else "do"
        more = f", which {pluralise(excused, 'open take')} {does} not explain" if excused else ""
        wrong.append(f"{pluralise(len(lost), 'element')} {verb} put and never taken{more}: {some}")
    return wrong


_END = 1 << 62  # an event after all others


def _in_order(puts: list[Operation], takes: list[Operation], left: Sequence[Value] | None) -> list[str]:
    """Compares each element with the earlier ones of its producer; unknown puts bind nobody."""
    known = [operation for operation in puts if operation.status is Status.OK]
    twice = [element for element, count in Counter(o.args[0] for o in puts).items() if count > 1]
    if twice:
        message = f"order cannot be told when {shorten_value(twice[0])} is put more than once"
        raise HistoryError(message, hint="number the elements, as (producer, n), or pass ordered=False")
    # When each element came out: (earliest, latest) event at which it may have.
    out = {o.result: (o.invoked, o.returned or 0) for o in takes if o.status is Status.OK}
    out |= {element: (_END + n, _END + n) for n, element in enumerate(left or ())}
    opened = [o.invoked for o in takes if o.status is Status.INFO]
    if left is not None and opened:  # what is not seen again was taken by one of these, not before the first
        out = {o.args[0]: (min(opened), _END - 1) for o in known} | out
    lanes: dict[Client, list[Value]] = {}
    for operation in sorted(known, key=lambda operation: operation.invoked):
        lanes.setdefault(operation.client, []).append(operation.args[0])
    wrong = []
    for client, elements in lanes.items():
        last: tuple[int, Value] | None = None  # of those put up to now, the one whose take began last
        for element in elements:
            if element not in out:
                continue  # lost, which is told elsewhere, or taken by an open take
            begun, ended = out[element]
            if last is not None and ended < last[0]:
                when = f"was taken first, at event {ended}" if ended < _END else "is ahead in the queue"
                both = f"{shorten_value(last[1])} before {shorten_value(element)}"
                wrong.append(f"client {client} put {both}, which {when}")
            if last is None or begun > last[0]:
                last = begun, element
    return wrong
