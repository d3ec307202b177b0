"""Stacks: elements between steps, of which the last that was put on comes off first.

Nodes name the stack in `attrs["resource"]`. These ops have no kernels: the actor that owns the stack
answers them, at once. Within one step they happen in the order of the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actorflow.errors import Where
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import StackDef
from actorflow.ops.definition import handle_arguments
from actorflow.ops.state.handle import Handle, as_typed_tensor, check_fits, resource_name, shared_name_of
from actorflow.ops.state.resource_methods import method, scalar
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import name_of
from actorflow.values.spec import Dim, Spec, merge, spec


class Stack(Handle[StackDef]):
    """Elements of which the last that was pushed is popped first; nobody waits.

    What a step has pushed and popped stays so if the step is aborted, as an assign does.

    Deviations from TensorFlow, and why: a stack lives as long as its session and is shared by steps,
    as all state is; one for each step comes with loops. Popping an empty one is OutOfRange, so that it
    ends a loop as a queue that has run dry does. It may be bounded in bytes too.

    Args:
        dtype: That of the elements.
        shape: That of the elements, as far as they share one.
        max_size: How many elements it holds; a push of more is refused. None for no limit.
        max_bytes: How many bytes they take together; likewise.
        name: Name of the stack; `stack`, `stack_1`, … when left out.
        shared_name: Under which all sessions of an actor system find the same stack, in the open
            `af.state.container`; without it every session has its own.

    Raises:
        SpecError: for what is no dtype, shape or limit.
        GraphError: when an explicit `name` is taken.

    >>> with af.Graph():
    ...     stack = af.state.Stack("float32", (None, 3), max_size=8)
    ...     print(stack, stack.pop().spec)
    <Stack stack: stack of (None, 3) float32, at most 8 elements> (None, 3) float32
    """

    def __init__(
        self,
        dtype: Any,
        shape: Iterable[Dim] | None = None,
        max_size: int | None = None,
        *,
        max_bytes: int | None = None,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        graph = current()
        line = source_line()
        element = handle_arguments.check_spec("a stack", dtype, shape)
        size = handle_arguments.limit(max_size, "the max_size of a stack")
        room = handle_arguments.limit(max_bytes, "the max_bytes of a stack")
        super().__init__(
            StackDef(
                name=resource_name(graph, name, "stack", Where(defined_at=line)),
                spec=element,
                max_size=size,
                max_bytes=room,
                device=graph.scope.device,
                defined_at=line,
                **shared_name_of(graph, shared_name, "stack", Where(defined_at=line)),
            )
        )

    def push(self, value: Any) -> Tensor:
        """Puts an element on top; gives it.

        Raises:
            SpecError: when it does not fit.
            StateError: in the step, when there is no room, or the stack is closed.
        """
        return self._ask_one("stack_push", [as_typed_tensor(value, self.definition.spec.dtype)])

    def pop(self) -> Tensor:
        """Takes the top element off.

        Raises:
            OutOfRange: in the step, when the stack is empty.
            StateError: in the step, when it is closed.
        """
        return self._ask_one("stack_pop", [])

    def size(self) -> Tensor:
        """How many elements there are, an int64 scalar."""
        return self._ask_one("stack_size", [])

    def close(self) -> Tensor:
        """Drops all elements and lets none in; gives True. Closing again is an error in the step."""
        return self._ask_one("stack_close", [])

    def _spec_attrs(self) -> Mapping[str, Attr]:
        held = self.definition.spec
        return {"dtype": name_of(held.dtype), "shape": held.shape}


def _check_spec(attrs: Mapping[str, Attr]) -> Spec:
    return spec(attrs["dtype"], attrs["shape"])


def _push_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    held = _check_spec(attrs)
    check_fits(inputs[0], held, f"an element of stack {attrs['resource']!r}")
    # What is known of both: it is the element that was pushed.
    return (Spec(merge(inputs[0].shape, held.shape), held.dtype),)


def _pop_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (_check_spec(attrs),)


method("stack_push", _push_spec, Effect.WRITE, Stack.push)
method("stack_pop", _pop_spec, Effect.WRITE, Stack.pop)
method("stack_size", scalar("int64"), Effect.READ, Stack.size)
method("stack_close", scalar("bool"), Effect.WRITE, Stack.close)
