"""Warns where sparse rows become dense: an update of three rows should not cost a million in silence.

An op that knows nothing of rows, a sum with a dense gradient and a rule that takes dense gradients only
give the right values. But a step then computes all rows, so each such place is told as `DenseRows`, once a
graph: whose rows, what takes them as dense ones, and the lines of the user. Whoever writes `to_dense()` has
said it.
"""

from __future__ import annotations

import sys
import warnings
from math import prod

from actorflow.errors import DenseRows
from actorflow.graph.body import root_of
from actorflow.graph.graph import current
from actorflow.runtime.call_site import is_users, source_line, users_frame, users_level
from actorflow.values.spec import Shape, Spec, show

FEWEST_BYTES = 1024
"""A table that is known to be smaller costs a step nothing that could be measured: no word about it."""


def is_worth_a_word(whole: Spec, rows: Shape) -> bool:
    """Tells whether a step computes more for it: not where as many rows come as there are, or all are few.

    Args:
        whole: What is known of the dense tensor.
        rows: What is known of the shape of the values.
    """
    if whole.shape is None or None in whole.shape:
        return True
    if prod(n or 0 for n in whole.shape) * whole.dtype.itemsize < FEWEST_BYTES:
        return False
    # As many rows as there are: dense is no more work.
    return not rows or rows[0] is None or rows[0] < (whole.shape[0] or 0)


def tell(whole: Spec, rows: Shape, whose: str, by: str, *, made_at: str, line: str | None = None) -> None:
    """Warns that rows become dense, unless that place of the graph has been told, or it costs nothing.

    Args:
        whole: The dense tensor.
        rows: The shape of the values.
        whose: The variable or tensor whose rows they are; empty where nobody knows. One of open size that is
            fed, or made on the way, is no table: its rows are as many as a step brings.
        by: What takes them as dense ones.
        made_at: The line from which the rows come.
        line: The line of what takes them; None for the one that is being built.
    """
    # Nobody knows whose, and of open size: rows that a step brings, no table.
    if not is_worth_a_word(whole, rows) or not (whose or whole.is_static):
        return
    graph = current()
    at = line or graph.scope.defined_at or source_line()
    table = f"{whose!r} {show(whole.shape)}" if whose else show(whole.shape)
    message = (
        f"rows of {table} {whole.dtype.name}, from {made_at}, become dense in {by}, at {at}: each step then "
        "computes all rows. Where that is meant, write grad.to_dense(), or ignore actorflow.errors.DenseRows"
    )
    # Once for each place, over the whole graph.
    told = root_of(graph).told
    if message not in told:
        warnings.warn(DenseRows(message), stacklevel=users_level())
        told.add(message)


def verb_of_the_user() -> str:
    """Returns the name of the function of actorflow that code of the user has called."""
    frame, users = sys._getframe(1), users_frame(sys._getframe(1))
    name = ""
    # The outermost function of ours below the user's frame, wrappers apart.
    while frame is not users and frame.f_back is not None:
        code = frame.f_code
        wrapper = code.co_name in _WRAPPERS or code.co_name.startswith(("__", "_"))
        if not is_users(frame) and not wrapper:
            name = code.co_name
        frame = frame.f_back
    return name or "an op"


_WRAPPERS = ("call", "called", "method", "with_values", "as_tensor", "made_dense", "tell", "verb_of_the_user")
