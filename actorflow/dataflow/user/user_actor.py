"""The actor of the user that a graph declares: made for a session, and asked for its methods by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.errors import ActorflowError, GraphError, describe
from actorflow.ops.control.user_code_ops import UserActor


@dataclass(frozen=True, slots=True)
class Invoke:
    """Node → actor of the user: call a method by its name; the answer is what it returns."""

    method: str
    args: tuple[Any, ...]


class ObjectActor(Actor):
    """Owns an object that is no actor, and calls its methods one at a time.

    Receives: Invoke.
    Fails: what a method raises goes to the asker alone.
    """

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def receive(self, message: Any) -> Any:
        """Calls the method."""
        if type(message) is not Invoke:
            kind = type(self.thing).__name__
            message = f"a {kind} is no actor and takes no messages, got {type(message).__name__}"
            raise GraphError(message, hint='call a method of it by its name: af.call(thing, "method", ...)')
        return _invoke(self.thing, message)


def user_actor(key: str, definition: UserActor) -> Actor:
    """Returns a fresh actor for what `af.actor` declares.

    Raises:
        GraphError: when it cannot be made.
    """
    try:
        thing = definition.factory(*definition.args)
    except ActorflowError:
        raise
    except Exception as error:
        message = f"{key!r} could not be made: {describe(error)}"
        raise GraphError(message, hint="look at the arguments that af.actor was given") from error
    if not isinstance(thing, Actor):
        return ObjectActor(thing)
    vars(thing)["receive"] = partial(_receive, thing, thing.receive)
    return thing


def _receive(thing: Actor, receive: Any, message: Any) -> Any:
    return _invoke(thing, message) if type(message) is Invoke else receive(message)


def _invoke(thing: Any, message: Invoke) -> Any:
    method = getattr(thing, message.method, None)
    if not callable(method):
        what = f"{type(thing).__name__} has no method {message.method!r}"
        raise GraphError(what, hint="af.call takes the name of a method, or what makes a message")
    return method(*message.args)
