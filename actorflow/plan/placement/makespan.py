"""What an arrangement would take: a simulation of devices and links, on which all placers are judged.

- A device runs one task at a time, to its end, and is never idle while a task is ready there.
- A link carries one value at a time in each direction. A value goes to each device that takes it once.
- What only orders (`Arrangement.after`, controls) is a message without bytes that finds its link free.
- A value lies on its maker's device from when the maker starts until its takers there have ended and it
  has been sent everywhere; elsewhere from when its transfer starts until its takers there have ended.

Ties are broken by number, so the same problem and arrangement give the same forecast. With `throttled`
nothing starts that does not fit into the memory of its device at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from actorflow.plan.placement.scheduling_problem import Arrangement, SchedulingProblem

_TASK, _FREE, _ARRIVED, _SIGNAL, _OPEN = range(5)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would happen.

    Attributes:
        makespan_s: When the last task ends; infinite when tasks are left that never ran.
        start: By task, in seconds; -1 for one that never starts.
        finish: Likewise.
        sent: When each transfer (value, device) starts.
        arrived: When each is there.
        peak_bytes: By device, the most that lay there at once.
        begun: What began, in order, also among what began at the same time: tasks as (task, -1), transfers
            as (value, device). Everything stands behind what it had to wait for.
    """

    makespan_s: float
    start: list[float]
    finish: list[float]
    sent: dict[tuple[int, int], float]
    arrived: dict[tuple[int, int], float]
    peak_bytes: list[float]
    begun: list[tuple[int, int]]


def forecast(
    work: SchedulingProblem, arranged: Arrangement, *, throttled: bool = False, until_s: float = inf
) -> Forecast:
    """Returns what happens when `work` runs as `arranged`; nothing more from `until_s` on."""
    return _Simulation(work, arranged, throttled=throttled).run(until_s)


class _Simulation:
    """One run. `events` holds (time, number, what, task or value, device)."""

    def __init__(self, work: SchedulingProblem, arranged: Arrangement, *, throttled: bool) -> None:
        self.work, self.device, self.rank = work, arranged.device, arranged.rank
        self.throttled = throttled
        devices = range(len(work.links))
        self.ready: list[list[tuple[float, int]]] = [[] for _ in devices]
        self.busy = [False for _ in devices]
        self.waiting: dict[tuple[int, int], list[tuple[float, int]]] = {}  # transfers, by link
        self.taken: set[tuple[int, int]] = set()  # links that carry something
        self.missing = [len(takes) for takes in work.takes]
        self.followers: dict[int, list[int]] = {}
        for before, after in arranged.after:
            self.followers.setdefault(before, []).append(after)
            self.missing[after] += 1
        self.locked: dict[tuple[int, int], int] = {}  # transfers: for how many controls they wait
        self.opens: dict[int, list[tuple[int, int]]] = {}
        for gate in arranged.transfer_controls:
            key = (gate.value, gate.device)
            self.locked[key] = self.locked.get(key, 0) + 1
            self.opens.setdefault(gate.after, []).append(key)
        self.made: set[int] = set()
        self.held: dict[tuple[int, int], int] = {}  # (value, device): who still needs it there
        self.bytes = [0.0 for _ in devices]
        self.peak = [0.0 for _ in devices]
        self.start = [-1.0] * work.size
        self.finish = [-1.0] * work.size
        self.sent: dict[tuple[int, int], float] = {}
        self.arrived: dict[tuple[int, int], float] = {}
        self.begun: list[tuple[int, int]] = []
        self.events: list[tuple[float, int, int, int, int]] = []
        self.now = 0.0
        self.number = 0
        self.touched: set[int] = set(devices)
        self.links_touched: set[tuple[int, int]] = set()

    def run(self, until_s: float) -> Forecast:
        for task, missing in enumerate(self.missing):
            if not missing:
                # Among those that are ready the lowest rank goes first.
                heappush(self.ready[self.device[task]], (self.rank[task], task))
        events = self.events
        self.dispatch()
        while events and events[0][0] < until_s:
            self.now = events[0][0]
            # All that ends at one moment before anything begins then: so ties have no order.
            while events and events[0][0] == self.now:
                _, _, what, item, device = heappop(events)
                self.happened(what, item, device)
            self.dispatch()
        complete = all(end >= 0.0 for end in self.finish)
        # Tasks are left that never ran: the controls of an arrangement, or its limits, hold each other up.
        makespan = max(self.finish, default=0.0) if complete else inf
        return Forecast(makespan, self.start, self.finish, self.sent, self.arrived, self.peak, self.begun)

    def later(self, seconds: float, what: int, item: int, device: int) -> None:
        self.number += 1
        # The number breaks ties, so that the same problem gives the same forecast.
        heappush(self.events, (self.now + seconds, self.number, what, item, device))

    def happened(self, what: int, item: int, device: int) -> None:
        if what == _TASK:
            self.ended(item, device)
        elif what == _FREE:
            source = self.device[self.work.values[item].maker]
            self.taken.discard((source, device))
            self.links_touched.add((source, device))
            # It has left: of those that still need it at its source one less.
            self.release(item, source)
        elif what == _ARRIVED:
            self.arrived[item, device] = self.now
            for taker in self.work.values[item].takers:
                if self.device[taker] == device:
                    self.give_value(taker)
        elif what == _SIGNAL:
            self.give_value(item)
        else:
            self.unlocked(item, device)

    def ended(self, task: int, device: int) -> None:
        work, homes = self.work, self.device
        self.finish[task] = self.now
        self.busy[device] = False
        self.touched.add(device)
        for v in work.takes[task]:
            self.release(v, device)
        for v in work.makes[task]:
            self.made.add(v)
            targets: dict[int, None] = {}
            for taker in work.values[v].takers:
                if homes[taker] == device:
                    self.give_value(taker)
                else:
                    targets[homes[taker]] = None
            # Once to each device, however many tasks take it there.
            for target in targets:
                if not self.locked.get((v, target)):
                    self.offer(v, target)
            # The maker itself held it until now.
            self.release(v, device)
        for follower in self.followers.get(task, ()):
            # A message without bytes finds its link free: only the latency counts.
            self.later(self.latency(device, homes[follower]), _SIGNAL, follower, 0)
        for v, target in self.opens.get(task, ()):
            self.later(self.latency(device, homes[work.values[v].maker]), _OPEN, v, target)

    def latency(self, source: int, target: int) -> float:
        return 0.0 if source == target else self.work.links[source][target].latency_s

    def unlocked(self, value: int, target: int) -> None:
        self.locked[value, target] -= 1
        # It may not have been made yet.
        if not self.locked[value, target] and value in self.made:
            self.offer(value, target)

    def give_value(self, task: int) -> None:
        self.missing[task] -= 1
        if not self.missing[task]:
            device = self.device[task]
            heappush(self.ready[device], (self.rank[task], task))
            self.touched.add(device)

    def offer(self, value: int, target: int) -> None:
        of = self.work.values[value]
        link = (self.device[of.maker], target)
        # A transfer is as urgent as the first task that waits for it.
        urgent = min(self.rank[taker] for taker in of.takers if self.device[taker] == target)
        heappush(self.waiting.setdefault(link, []), (urgent, value))
        self.links_touched.add(link)

    def hold(self, value: int, device: int, users: int) -> None:
        self.held[value, device] = users
        self.bytes[device] += self.work.values[value].size
        if self.bytes[device] > self.peak[device]:
            self.peak[device] = self.bytes[device]

    def release(self, value: int, device: int) -> None:
        self.held[value, device] -= 1
        if not self.held[value, device]:
            self.bytes[device] -= self.work.values[value].size
            self.touched.add(device)
            # There may be room for a transfer now that did not fit.
            if self.throttled:
                self.links_touched.update(link for link in self.waiting if link[1] == device)

    def fits(self, device: int, size: float) -> bool:
        return not self.throttled or self.bytes[device] + size <= self.work.limits[device]

    def dispatch(self) -> None:
        """Starts what can start now; what begins to lie on a device does so after all that ends now."""
        # Sorted: the order of a set differs from process to process.
        for device in sorted(self.touched):
            if not self.busy[device]:
                self.begin(device)
        self.touched.clear()
        for link in sorted(self.links_touched):
            if link not in self.taken:
                self.send(link)
        self.links_touched.clear()

    def begin(self, device: int) -> None:
        work, queue = self.work, self.ready[device]
        if not queue:
            return
        task = queue[0][1]
        # What a task makes lies there from when it starts.
        if self.throttled and not self.fits(device, sum(work.values[v].size for v in work.makes[task])):
            return
        heappop(queue)
        self.busy[device] = True
        self.start[task] = self.now
        self.begun.append((task, -1))
        for v in work.makes[task]:
            homes = [self.device[taker] for taker in work.values[v].takers]
            here = homes.count(device)
            there = len(set(homes)) - (here > 0) if here < len(homes) else 0
            # Its takers here, each device that it is sent to, and the task itself until it ends.
            self.hold(v, device, here + there + 1)
        self.later(work.seconds[task][device], _TASK, task, device)

    def send(self, link: tuple[int, int]) -> None:
        queue = self.waiting.get(link)
        source, target = link
        if not queue or not self.fits(target, self.work.values[queue[0][1]].size):
            # The first in line waits for room, and the others behind it: the order of a link stays.
            return
        _, value = heappop(queue)
        of, line = self.work.values[value], self.work.links[source][target]
        self.taken.add(link)
        self.sent[value, target] = self.now
        self.begun.append((value, target))
        # Held there from when its transfer begins.
        self.hold(value, target, sum(1 for taker in of.takers if self.device[taker] == target))
        # The link is free when the bytes have left; they are there a latency later.
        self.later(of.size / line.bytes_per_s, _FREE, value, target)
        self.later(line.seconds(of.size), _ARRIVED, value, target)


def within_limits(work: SchedulingProblem, found: Forecast) -> bool:
    """Tells whether no device ever held more than it can."""
    return all(peak <= limit for peak, limit in zip(found.peak_bytes, work.limits, strict=True))
