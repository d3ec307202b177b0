"""The optimizer actor: owns an optimizer's state and turns gradients into one commit group.

Write a pure rule as an `optim.Transform` when you can. Subclass `OptimizerActor` when the rule
needs more: to talk to other actors, to look at a clock, to keep state that is not an array.

A gradient of some rows stays one from the node to the commit when the rule takes those; an update
then costs what its rows cost. ORDER: so that rows can be put in place, nothing here holds a snapshot
of a variable or of the state any more when the commit is sent.

| to each variable | lane | what comes back |
| --- | --- | --- |
| `Borrow` | data, asked | a snapshot and its version, the base of the update |
| `StageUpdate` | data, asked | checked and kept, or refused; where a block holds it, once its turn has come |
| `FillSlots` | data, asked | kept: a copy of a large value, of which rows change and which others hold |
| `CommitUpdate`, else `DiscardUpdate` | control | nothing |

ORDER: after a refusal too it waits for every other answer to StageUpdate, so that no DiscardUpdate overtakes
one; and from the last answer on it awaits nothing until all is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.await_turn import await_turn
from actorflow.actors.ref import Ref
from actorflow.dataflow.optimizer import commit_group
from actorflow.dataflow.optimizer.gradients import (
    ApplyGradients,
    Decision,
    Gradients,
    MakeState,
    all_dense,
    check_shape,
    first_not_finite,
)
from actorflow.dataflow.optimizer.optimizer_state import (
    Apart,
    MadeFor,
    OptimizerState,
    PreparedState,
    Tree,
    apart,
)
from actorflow.dataflow.optimizer.update_proposal import NewState, bytes_of, check_deltas, propose
from actorflow.dataflow.state.register import GroupId, Source, WriteCounts
from actorflow.dataflow.state.variable import (
    BUSY,
    Borrow,
    CommitUpdate,
    DiscardUpdate,
    FillSlots,
    IsInitialised,
    StageUpdate,
)
from actorflow.errors import (
    ActorflowError,
    GraphError,
    InternalError,
    NumericError,
    StateError,
    StepAborted,
)
from actorflow.kernels.device.offload import OFFLOAD_BYTES, offload
from actorflow.optim import Transform
from actorflow.runtime.messages import Call, CancelCall, Reply
from actorflow.values import arrays
from actorflow.values.arrays import Array
from actorflow.values.finite import after
from actorflow.values.sparse import SparseRows, divide

Compute = Callable[..., Awaitable[Any]]
"""(function, *arguments) -> its result; on the device's threads when the variables are large."""


@dataclass(frozen=True, slots=True)
class UpdateContext:
    """What an update may look at.

    Attributes:
        params: Snapshots of the variables, by name.
        state: The committed state; do not change its arrays, return new ones.
        count: How many updates have been committed before.
        staleness: How many updates came between the parameters that the gradients were computed from,
            the oldest if several workers computed them, and `params`; 0 where nobody trains beside.
        compute: `await ctx.compute(function, *args)` runs array work where it may take long.
    """

    params: Mapping[str, Array]
    state: Tree
    count: int
    compute: Compute
    staleness: int = 0


class OptimizerActor(Actor):
    """Owns the state of one `minimize` and applies its updates one after the other.

    Receives: ApplyGradients, as the body of a node's call; MakeState (asked).
    Sends: IsInitialised, Borrow, StageUpdate and FillSlots (asked), CommitUpdate or DiscardUpdate (control
        lane), to the variables.
    Promise: an update is one commit group. All of `on_gradients`, every await in it and every check
        come before the commit; then all variables and the state change, or none does. Where gradients
        are looked at, one that is not finite is an error before that, or the update is dropped; so is new
        state that is not finite.
    Fails: an exception in `on_gradients` aborts the step that brought the gradients, and nothing
        else; the actor goes on with the state that it had.

    Override `init` and `on_gradients`; with a Transform given, the defaults obey it. What was fetched
    or read before an update never changes, be it one of some rows.
    """

    def __init__(self, transform: Transform | None = None) -> None:
        self.transform = transform
        self.count = 0
        self._optimizer_state: OptimizerState | None = None
        self._made_for = MadeFor({}, {})
        self._made_at: dict[str, int] = {}  # the versions of the variables then
        self._names: tuple[str, ...] = ()
        self._variables: Mapping[str, Ref] = {}
        self._order: tuple[str, ...] = ()
        self._submit: Callable[..., None] | None = None
        self._source = Source("")
        self._group = 0
        self._nbytes = 0
        self._write_counts = WriteCounts()
        self._dropped = 0

    @property
    def state(self) -> Tree:
        """The committed state, None while none has been made: before the first update, or MakeState."""
        return None if self._optimizer_state is None else self._optimizer_state.tree()

    @property
    def sparse(self) -> bool:
        """Whether `on_gradients` takes SparseRows among the gradients; else it is handed dense ones.

        The default does if the Transform does. A subclass with an `on_gradients` of its own that
        does, says so: `sparse = True`.
        """
        if type(self).on_gradients is not OptimizerActor.on_gradients:
            return False
        return self.transform is not None and self.transform.sparse

    @property
    def rule(self) -> str:
        """What errors call it: its class if that is a user's, else its Transform."""
        if type(self) is OptimizerActor and self.transform is not None:
            return self.transform.name
        return type(self).__name__

    @property
    def joint(self) -> str:
        """The name of what in it looks at all variables at once, so that shards cannot run it; see Transform.

        The default is that of the Transform. A subclass that does so itself says it: `joint = "MyRule"`.
        """
        return "" if self.transform is None else self.transform.joint

    def init(self, params: Mapping[str, Array]) -> Tree:
        """Returns the state before the first update; that of a Transform on a thread if it is large."""
        return self._rule().init(dict(params))

    async def on_gradients(self, grads: Gradients, ctx: UpdateContext) -> tuple[Gradients, Tree]:
        """Returns what is to be added to each variable, and the state afterwards.

        Args:
            grads: d loss / d variable by name, shapes and dtypes of the variables. With `sparse`, one
                may be SparseRows; then its delta is SparseRows with the same indices, or an array.
            ctx: Params, state and count; see UpdateContext.
        """
        update: tuple[Gradients, Tree] = await ctx.compute(
            self._rule().update, dict(grads), ctx.state, dict(ctx.params)
        )
        return update

    def bind(
        self,
        variables: Mapping[str, Ref],
        source: Source,
        submit: Callable[..., None] | None,
        order: Sequence[str] | None = None,
        write_counts: WriteCounts | None = None,
    ) -> OptimizerActor:
        """Tells the actor which variables it trains and where to compute; called by the session.

        Args:
            variables: By name, in the order of the gradients.
            source: Names the updates.
            submit: How it computes on a device's threads; None computes inline.
            order: The names in the order in which everybody locks them.
            write_counts: Where dropped updates are counted.

        Raises:
            GraphError: when it already trains for a session; when it has no rule but what `minimize`
                refuses, see `check_descends`.
        """
        if self.transform is not None and type(self).on_gradients is OptimizerActor.on_gradients:
            check_descends(self.transform)
        if self._names:
            message = f"{type(self).__name__} already trains for a session"
            raise GraphError(message, hint="make a new one at each call: lambda: MyOptimizer(...)")
        self._names = tuple(variables)
        self._variables = variables
        self._order = self._names if order is None else tuple(order)
        self._source = source
        self._submit = submit
        self._write_counts = write_counts or self._write_counts
        return self

    async def receive(self, message: Any) -> None:
        """Turns one set of gradients into one commit group; the end of its step ends this as well."""
        if type(message) is CancelCall:
            return  # the call has not begun: it will be found void
        if type(message) is MakeState:
            await self._make_ready(message)
            return
        if type(message) is not Call or type(message.body) is not ApplyGradients:
            what = f"an optimizer takes gradients, got {type(message).__name__}"
            raise InternalError(what)
        reply = message.reply
        if reply.error is not None:
            return
        scope = asyncio.timeout(None)
        try:
            async with scope:
                reply.interrupt = partial(scope.reschedule, 0.0)
                await self._apply(message.body, reply)
        except TimeoutError:
            if not scope.expired():
                raise  # the user's own
        finally:
            reply.interrupt = None

    async def _apply(self, asked: ApplyGradients, reply: Reply) -> None:
        self._group += 1
        group = (self._source, self._group)
        found = await self._update(asked, group)
        if isinstance(found, NumericError):
            self._drop(found, asked.max_not_finite or 0)
            reply.done(arrays.integer(self.count))
            return
        slots, state, stages = found
        del found
        prepared = slots.prepare(state)
        del state
        refusal: BaseException | None = InternalError("the update was interrupted while it was staged")
        try:
            refused, held = await self._stage(stages, reply)
            if refused is None:
                await self._copy(group, held, prepared)
            refused = refused or reply.error
            if asked.decision is not None and refused is None:
                refused = await _await_decision(asked.decision)
            refusal = refused
        finally:
            if refusal is not None:
                for ref in self._variables.values():
                    ref.signal(DiscardUpdate(group))
        if refusal is not None:
            raise refusal
        for ref in self._variables.values():  # ORDER: no await from here on; the commit cannot fail
            ref.signal(CommitUpdate(group))
        slots.commit(prepared)
        self._optimizer_state = slots
        self.count += 1
        reply.done(arrays.integer(self.count))

    def _drop(self, wrong: NumericError, most: int) -> None:
        """Counts an update that is dropped since it is not finite; raises that after the last."""
        if self._dropped >= most:
            raise after(wrong, self._dropped)
        self._dropped += 1
        self._write_counts.dropped += 1

    async def _update(
        self, asked: ApplyGradients, group: GroupId
    ) -> tuple[OptimizerState, Apart, dict[str, StageUpdate]] | NumericError:
        """Returns the state before, that afterwards, and what to stage; lets go of all it looked at.

        Where it is to look at that, a NumericError when a gradient, a new value or new state is not finite.
        """
        wrong: NumericError | None
        looks = asked.max_not_finite is not None
        if looks and not asked.looked:
            self._nbytes = sum(map(bytes_of, asked.gradients))
            wrong = await self._compute(first_not_finite, self._names, asked.gradients)
            if wrong is not None:
                return wrong
        params, versions = await self._borrow()
        grads = await self._gradients_by_name(asked.gradients, params)
        slots = await self._state_for(params, versions)
        ctx = UpdateContext(_as_params(params), slots.tree(), self.count, self._compute, asked.staleness)
        update: Any = await self.on_gradients(grads, ctx)
        if not isinstance(update, tuple) or len(update) != 2:
            who = type(self).__name__
            message = f"{who}.on_gradients must return (deltas, state), got {type(update).__name__}"
            raise StateError(message, hint="deltas is a dict by variable name, state any tree of arrays")
        deltas, after_it = update
        state = apart(after_it)
        check_deltas(self.rule, deltas, params, grads)
        if asked.shares > 1:
            deltas = await self._compute(divide, deltas, asked.shares)
        looked = NewState(self.rule, slots, state) if looks else None
        proposed, wrong = await self._compute(propose, params, deltas, looked)
        if wrong is not None:
            return wrong
        stages = {n: StageUpdate(group, deltas[n], proposed[n], versions[n]) for n in self._names}
        return slots, state, stages

    async def _borrow(self) -> tuple[dict[str, Array], dict[str, int]]:
        """Returns the values of the variables, and their versions."""
        params: dict[str, Array] = {}
        versions: dict[str, int] = {}
        for name, ref in self._variables.items():
            lent = await ref.ask(Borrow())
            versions[name], params[name] = lent.pop(), lent.pop()
        return params, versions

    async def _make_ready(self, asked: MakeState) -> None:
        """Makes the state before the first update needs it; not while a variable has no value."""
        if self._optimizer_state is not None:
            return
        for ref in self._variables.values():
            if not await ref.ask(IsInitialised()):
                return
        self._optimizer_state = await self._state_for(*await self._borrow())

    async def _state_for(self, params: Mapping[str, Array], versions: dict[str, int]) -> OptimizerState:
        """The state. Before the first update it is made of these values, unless it has been.

        Raises:
            StateError: when it is of other shapes.
        """
        shapes = {name: param.shape for name, param in params.items()}
        if self.count == 0 and versions != self._made_at:
            self._optimizer_state = None  # somebody has written since
        if self._optimizer_state is None:
            slots = await self._make_state(params)
            self._made_for, self._made_at = MadeFor(shapes, slots.shapes()), versions
            return slots
        if shapes != self._made_for.params:
            self._made_for.check(shapes, (await self._make_state(params)).shapes())
        return self._optimizer_state

    async def _make_state(self, params: Mapping[str, Array]) -> OptimizerState:
        """The state before the first update; an `init` of a user's own may use the actor, and stays here."""
        if type(self).init is not OptimizerActor.init:
            return OptimizerState(self.init(_as_params(params)))
        before, self._nbytes = self._nbytes, sum(map(arrays.nbytes, params.values()))
        try:
            slots: OptimizerState = await self._compute(_in_memory, self._rule().init, _as_params(params))
        finally:
            self._nbytes = before
        return slots

    async def _gradients_by_name(
        self, gradients: Sequence[Any], params: Mapping[str, Array]
    ) -> dict[str, Any]:
        """The gradients by name, as `on_gradients` takes them."""
        for name, grad in zip(self._names, gradients, strict=True):
            check_shape(name, grad, params[name].shape)
        shown = arrays.view_for_user
        grads = {
            n: SparseRows(shown(g[0]), shown(g[1]), params[n].shape) if type(g) is tuple else shown(g)
            for n, g in zip(self._names, gradients, strict=True)
        }
        if not self.sparse and any(type(g) is SparseRows for g in grads.values()):
            self._nbytes = sum(map(arrays.nbytes, params.values()))
            grads = await self._compute(all_dense, grads)
        self._nbytes = sum(map(arrays.nbytes, grads.values()))
        return grads

    async def _stage(
        self, stages: Mapping[str, StageUpdate], reply: Reply
    ) -> tuple[BaseException | None, dict[str, Any]]:
        """Stages every member, one after the other; returns the first refusal, and what others hold.

        ORDER: that of locks, since a staged variable is held until the commit, and staging may wait.
        """
        group = commit_group.init(frozenset(stages))
        held = {}
        for name in self._order:
            try:
                value_and_version = await self._variables[name].ask(stages[name])
                if value_and_version is BUSY:
                    value_and_version = await await_turn(self, self._variables[name], stages[name], reply)
                if value_and_version is not None:
                    held[name] = value_and_version
                del value_and_version
            except ActorflowError as error:
                group = commit_group.refused(group, name, error)
            else:
                group = commit_group.staged(group, name)
        return None if group.decision is commit_group.GroupDecision.COMMIT else group.refusal, held

    async def _copy(self, group: GroupId, held: dict[str, Any], prepared: PreparedState) -> None:
        """Copies on a thread what is large and others hold, so that the commit need not on the loop.

        It may turn out at the commit that they hold it no more; then the copy is dropped.
        """
        while held:
            name, (value, version) = held.popitem()
            self._nbytes = arrays.nbytes(value)
            if self._on_threads():
                copy = await self._compute(arrays.copy, value)
                del value
                await self._variables[name].ask(FillSlots(group, copy, version))
        self._nbytes = sum(map(arrays.nbytes, prepared.held.values()))
        if self._on_threads():
            await self._compute(prepared.fill)
        prepared.held.clear()

    async def _compute(self, function: Callable[..., Any], *args: Any) -> Any:
        if self._submit is None or not self._on_threads():
            return function(*args)
        return await offload(self._submit, function, *args)

    def _on_threads(self) -> bool:
        return self._submit is not None and self._nbytes >= OFFLOAD_BYTES

    def _rule(self) -> Transform:
        if self.transform is None:
            message = f"{type(self).__name__} has no Transform and does not override init and on_gradients"
            raise StateError(message, hint="pass one to super().__init__, for example af.optim.sgd(0.1)")
        return self.transform


async def _await_decision(decision: Decision) -> StepAborted | None:
    """Says that all is staged, waits for the decision, and returns None when it is to commit."""
    decision.staged()
    if await decision.commit:
        return None
    return StepAborted("the update was staged, and others decided to discard it")


def _as_params(params: Mapping[str, Array]) -> Mapping[str, Array]:
    """The params as a rule may have them, which may be anybody's."""
    return MappingProxyType({name: arrays.view_for_user(param) for name, param in params.items()})


def _in_memory(init: Callable[[dict[str, Array]], Tree], params: Mapping[str, Array]) -> OptimizerState:
    """The state that `init` makes, all of it in memory."""
    slots = OptimizerState(init(dict(params)))
    slots.touch()
    return slots


def check_descends(transform: Transform) -> None:
    """Raises GraphError for a transform that gives gradients: what it gives would be added, and climb."""
    if transform.filter:
        name = transform.name
        message = f"an optimizer goes down the gradient, got {name}, which passes gradients and has no rule"
        hint = f"put a rule behind it: af.optim.chain(af.optim.{name}(...), af.optim.sgd(0.1))"
        if name in ("chain", "partition"):
            hint = f"give the {name} a rule such as af.optim.sgd(0.1) where it ends in a limit or a decay"
        raise GraphError(message, hint=hint)
