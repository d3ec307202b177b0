"""Whose turn it is: a strand is delayed by k turns, keeps its own order, and always goes in the end."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from actorflow.sim.engine.choice import MAX_DELAY, Asked, ChoicePoint, Choices, Scheduler
from actorflow.sim.engine.plan import Plan, Planned
from actorflow.sim.engine.schedulers import PCT, Ranks, Seeded
from actorflow.sim.engine.strands import Strand
from actorflow.sim.engine.turn_order import PATIENCE, Order

Item = tuple[int, int]  # strand, number


class Told:
    """A scheduler that says what a list says, in the order in which it is asked, then 0."""

    def __init__(self, values: list[int]) -> None:
        self._values = deque(values)

    def meet(self, point: ChoicePoint) -> None:
        pass

    def draw(self, point: ChoicePoint) -> int:
        return self._values.popleft() if self._values else 0


class Reference:
    """Delays, told slowly: every strand that is delayed has a number of turns left."""

    def __init__(self, ask: Callable[[int], int]) -> None:
        self._ask = ask
        self._left: dict[int, int] = {}

    def take(self, queue: list[Item], *, others: bool) -> Item | None:
        item = self._whose(queue, others=others)
        if item is not None:
            queue.remove(item)
            self._left.pop(item[0], None)
            self._left = {lane: left - 1 for lane, left in self._left.items()}
        return item

    def _whose(self, queue: list[Item], *, others: bool) -> Item | None:
        if len(queue) == 1 and not others:
            return queue[0]
        for item in queue:
            lane = item[0]
            if lane not in self._left:
                aside = self._ask(lane)
                if aside == 0:
                    return item
                self._left[lane] = aside
            elif self._left[lane] <= 0:
                return item
        if others:
            return None
        return min(queue, key=lambda item: self._left[item[0]])  # of equals the first


class Desk:
    """An order and its strands, and a queue of numbered items."""

    def __init__(self, chooser: Scheduler, lanes: int = 4) -> None:
        self.choices = Choices(chooser)
        self.order = Order(self.choices, chooser if isinstance(chooser, Ranks) else None)
        self.lanes = [Strand(self.choices.point(f"lane{i}")) for i in range(lanes)]
        self.queue: deque[Item] = deque()
        self.taken: list[Item] = []
        self._numbers: Counter[int] = Counter()

    def push(self, lane: int) -> None:
        self._numbers[lane] += 1
        self.queue.append((lane, self._numbers[lane]))

    def take(self, *, others: bool = False) -> Item | None:
        item = self.order.take(self.queue, lambda item: self.lanes[item[0]], others=others)
        if item is not None:
            self.taken.append(item)
        return item

    def play(self, moves: list[int | None]) -> list[Item]:
        """Pushes to the strand of each number, takes at each None, and takes what is left."""
        for move in moves:
            if move is not None:
                self.push(move)
            elif self.queue:
                self.take()
        while self.queue:
            self.take()
        return self.taken


moves = st.lists(st.integers(0, 3) | st.none(), max_size=60)
asides = st.lists(st.sampled_from([0, 0, 0, 1, 2, 5, MAX_DELAY]), max_size=60)


@given(
    st.lists(st.integers(0, 3) | st.just("take") | st.just("take, others wait"), max_size=60),
    asides,
)
def test_take_is_the_slow_clear_rule(events: list[int | str], asides: list[int]) -> None:
    desk = Desk(Told(asides))
    told = deque(asides)
    reference = Reference(lambda _lane: told.popleft() if told else 0)
    queue: list[Item] = []

    for event in events:
        if isinstance(event, int):
            desk.push(event)
            queue.append(desk.queue[-1])
        elif queue:
            others = event == "take, others wait"
            assert desk.take(others=others) == reference.take(queue, others=others)
            assert list(desk.queue) == queue


@given(moves, asides)
def test_a_lane_keeps_its_own_order(moves: list[int | None], asides: list[int]) -> None:
    taken = Desk(Told(asides)).play(moves)

    for lane in range(4):
        numbers = [number for which, number in taken if which == lane]
        assert numbers == sorted(numbers)
    assert len(taken) == sum(move is not None for move in moves)


@given(st.integers(0, 2**32), moves)
def test_nobody_is_passed_for_longer_than_the_lanes_may_stand_aside(
    seed: int, moves: list[int | None]
) -> None:
    """Also where every strand is delayed whenever it is asked."""
    desk = Desk(Seeded(seed, p=1.0).scheduler([]))
    waited: Counter[Item] = Counter()

    for move in [*moves, *([None] * 100)]:
        if move is not None:
            desk.push(move)
        elif desk.queue:
            before = len(desk.queue)
            desk.take()
            waited.update(desk.queue)
            assert len(desk.queue) == before - 1

    # Of the strands' four the others go first for at most MAX_DELAY turns each time its items come up.
    assert all(turns <= (number + 1) * (MAX_DELAY + 4) + 60 for (_, number), turns in waited.items())


def test_a_lane_stands_aside_for_as_many_turns_as_it_is_told() -> None:
    desk = Desk(Told([3]))
    for lane in (0, 1, 2, 3, 1, 2):
        desk.push(lane)

    taken = [desk.take() for _ in range(6)]

    assert taken == [(1, 1), (2, 1), (3, 1), (0, 1), (1, 2), (2, 2)]


def test_a_lane_that_has_stood_aside_goes_without_being_asked_again() -> None:
    desk = Desk(Told([1, 0, 9, 9]))
    for lane in (0, 1, 2):
        desk.push(lane)

    desk.take()
    asked = desk.choices.questions
    second = desk.take()

    assert (second, desk.choices.questions) == ((0, 1), asked)


def test_who_is_alone_goes_without_being_asked() -> None:
    desk = Desk(Told([5]))
    desk.push(0)

    assert desk.take() == (0, 1)
    assert desk.choices.questions == 0


def test_when_all_stand_aside_the_soonest_goes_and_of_equals_the_first() -> None:
    desk = Desk(Told([5, 2, 2]))
    for lane in (0, 1, 2):
        desk.push(lane)

    assert [desk.take() for _ in range(3)] == [(1, 1), (2, 1), (0, 1)]


def test_when_all_stand_aside_for_others_nobody_goes_and_no_turn_passes() -> None:
    desk = Desk(Told([1, 1]))
    desk.push(0)
    desk.push(1)

    nobody = desk.take(others=True)

    assert nobody is None
    assert (desk.order.turn, len(desk.queue)) == (0, 2)
    assert desk.take() == (0, 1)


def as_told(desk: Desk) -> Plan:
    desk.order.end()
    return Plan.of(desk.choices.taken)


@given(st.integers(0, 2**32), st.integers(1, 4), moves)
@example(0, 1, [0, 1, 0, 1, None, None, 0, 1])
def test_a_run_by_priorities_is_told_exactly_by_its_plan(
    seed: int, depth: int, moves: list[int | None]
) -> None:
    ranked = Desk(PCT(seed, depth).scheduler([Asked("lane0", 30, MAX_DELAY, ())]))
    taken = ranked.play(moves)
    again = Desk(Planned(as_told(ranked)))

    assert again.play(moves) == taken
    assert again.choices.survey() == ranked.choices.survey()


@given(st.integers(0, 2**32), st.integers(0, 40), moves)
def test_its_plan_tells_it_also_where_it_ends_early(seed: int, turns: int, moves: list[int | None]) -> None:
    """Who was passed over and never went stood aside until the end."""

    def play(chooser: Scheduler) -> Desk:
        desk = Desk(chooser)
        for move in moves:
            if move is not None:
                desk.push(move)
        for _ in range(min(turns, len(desk.queue))):
            desk.take()
        return desk

    ranked = play(PCT(seed).scheduler([]))

    assert play(Planned(as_told(ranked))).taken == ranked.taken


@given(st.integers(0, 2**32), moves, asides)
def test_a_run_by_delays_is_told_exactly_by_its_plan(
    seed: int, moves: list[int | None], asides: list[int]
) -> None:
    told = Desk(Told(asides))
    taken = told.play(moves)

    assert Desk(Planned(as_told(told))).play(moves) == taken


def test_a_strand_of_low_rank_is_not_passed_for_ever() -> None:
    """A program may wait in a loop for what another strand does; asyncio would let that one go."""
    for seed in range(20):
        desk = Desk(PCT(seed, depth=1).scheduler([]), lanes=2)
        desk.push(0)

        turns = 0
        while (0, 1) not in desk.taken:
            desk.push(1)
            desk.take()
            turns += 1
            assert turns <= PATIENCE + 1, f"seed {seed}"


def test_who_gives_way_has_used_a_turn() -> None:
    desk = Desk(Told([2, 0, 0, 0]))
    for lane in (1, 2, 3):
        desk.push(lane)

    gave = desk.order.delays(desk.lanes[0], desk.queue, lambda item: desk.lanes[item[0]])
    desk.push(0)

    assert (gave, desk.order.turn) == (True, 1)
    assert [desk.take() for _ in range(4)] == [(1, 1), (2, 1), (3, 1), (0, 1)]


def test_a_stopped_order_is_first_come_first_served() -> None:
    for chooser in (Told([9] * 50), PCT(3).scheduler([])):
        desk = Desk(chooser)
        for lane in (3, 2, 1, 0):
            desk.push(lane)
        desk.take()
        left = list(desk.queue)

        desk.order.stop()

        assert [desk.take() for _ in left] == left
