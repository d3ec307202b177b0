"""A simulated world: hosts that talk over a network, and everything that can be done to them.

The test's own code is outside the hosts: it survives every crash, and it may harm them at a chosen
moment. What was harmed by hand is requested as much as what was drawn: see `harms`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from actorflow.clock import Entropy
from actorflow.errors import ConfigError
from actorflow.sim.harms import Tally
from actorflow.sim.hosts import Host
from actorflow.sim.loop import SimLoop
from actorflow.sim.network import Held, Link
from actorflow.sim.straggler import Straggler


class World:
    """Hosts, the links between them, and the account of harms.

    Args:
        loop: The run's.
        names: Of the hosts.
        latency_s: How long a message travels that is not late.
        seed: Of the hosts' chance.

    Attributes:
        hosts: In the order of their names as given.
        tally: Which harms were requested, and which harmed something.
    """

    def __init__(self, loop: SimLoop, names: Iterable[str], *, latency_s: float = 0.0, seed: int = 0) -> None:
        self.loop = loop
        self.tally = Tally()
        self._latency_s = latency_s
        self._links: dict[tuple[str, str], Link] = {}
        self._numbers = itertools.count(1)
        self._entropy = Entropy(seed)
        self._hosts = {name: Host(self, name, Entropy(self._entropy.below(1 << 62))) for name in names}

    @property
    def hosts(self) -> list[Host]:
        """All hosts."""
        return list(self._hosts.values())

    def host(self, name: str) -> Host:
        """Returns the host of that name."""
        host = self._hosts.get(name)
        if host is None:
            message = f"no host '{name}'; this world has {', '.join(self._hosts)}"
            raise ConfigError(message)
        return host

    def __getitem__(self, name: str) -> Host:
        return self.host(name)

    def link(self, source: str, target: str) -> Link:
        """Returns the link from one host to another."""
        link = self._links.get((source, target))
        if link is None:
            self.host(source)
            host = self.host(target)
            latency_s = 0.0 if source == target else self._latency_s
            link = Link(self.loop, f"{source}>{target}", latency_s, self.tally, host.life, host.deliver)
            self._links[source, target] = link
        return link

    def next_number(self) -> int:
        """Returns a number that no other question of this world has."""
        return next(self._numbers)

    def connect(self, host: Host) -> None:
        """Leads all links to a host to its present incarnation."""
        for (_, target), link in self._links.items():
            if target == host.name:
                link.connect(host.life, host.deliver)

    async def start(self) -> None:
        """Starts all hosts."""
        for host in self._hosts.values():
            await host.start()

    async def close(self) -> None:
        """Closes the actor systems of all hosts that live, without choices or harm from now on.

        Raises:
            ExceptionGroup: errors of actors that nobody heard.
        """
        self.loop.order.stop()
        self.heal()
        for link in self._links.values():
            link.unclog()
        for host in self._hosts.values():
            if host.alive:
                await host.close()

    async def sleep(self, seconds: float) -> None:
        """Lets virtual time pass."""
        done = self.loop.create_future()
        self.loop.call_later(seconds, done.set_result, None)
        await done

    # -- harms by hand -----------------------------------------------------------------------------

    def crash(self, host: Host) -> None:
        """Kills a host at once; `restart` begins its next incarnation."""
        self._requested("crash")
        host.crash()
        self.tally.fired["crash"] += 1

    async def restart(self, host: Host) -> None:
        """Starts a crashed host again, with a new incarnation."""
        if host.alive:
            message = f"'{host.name}' is alive, incarnation {host.incarnation}: crash it first"
            raise ConfigError(message)
        await host.start()

    def restart_later(self, host: Host, seconds: float) -> None:
        """Starts a crashed host again in a while."""
        self.loop.call_later(
            seconds, lambda: self.loop.create_task(host.start(), name=f"restart {host.name}")
        )

    def pause(self, host: Host, seconds: float | None = None) -> None:
        """Stops a host where it stands, for a time or until `resume`."""
        self._requested("pause")
        host.pause()
        if seconds is not None:
            self.resume_later(host, seconds)

    def resume(self, host: Host) -> None:
        """Lets a paused host go on."""
        host.resume()

    def resume_later(self, host: Host, seconds: float) -> None:
        """Lets a paused host go on in a while."""
        life = host.life
        self.loop.call_later(seconds, lambda: host.resume() if host.life is life else None)

    def split(self, a: Iterable[Host], b: Iterable[Host], *, one_way: bool = False) -> None:
        """Loses everything sent from `a` to `b`, and back unless `one_way`, until `heal`."""
        self._requested("split")
        for link in self._between(a, b, one_way=one_way):
            link.split = True

    def heal(self) -> None:
        """Ends all splits."""
        for link in self._links.values():
            link.heal()

    def clog(self, source: Host, target: Host) -> None:
        """Lets everything sent from `source` to `target` wait until `unclog`."""
        self._requested("clog")
        self.link(source.name, target.name).clogged = True

    def unclog(self, source: Host, target: Host) -> None:
        """Lets what waited arrive."""
        self.link(source.name, target.name).unclog()

    async def swizzle(self, hosts: Iterable[Host], seconds: float) -> None:
        """Clogs all links of some of `hosts`, one host after the other; unclogs them in another order.

        Source: "swizzle-clogging" of FoundationDB's simulation.
        """
        chosen = [host for host in hosts if self._entropy.below(2)] or list(hosts)[:1]
        pause_s = seconds / (2 * len(chosen))
        for host in self._shuffled(chosen):
            for other in self._hosts.values():
                if other is not host:
                    self.clog(host, other)
                    self.clog(other, host)
            await self.sleep(pause_s)
        for host in self._shuffled(chosen):
            for other in self._hosts.values():
                if other is not host:
                    self.unclog(host, other)
                    self.unclog(other, host)
            await self.sleep(pause_s)

    def slow(self, source: Host, target: Host, factor: float) -> None:
        """Makes messages from `source` to `target` travel `factor` times as long."""
        link = self.link(source.name, target.name)
        if not link.latency_s:
            message = f"a slower {link.label} needs a latency, got 0 s"
            raise ConfigError(message, hint="make the world with latency_s=0.001")
        self._requested("slow")
        link.slowness = factor

    def straggle(self, host: Host, straggler: Straggler | None = None) -> None:
        """Disturbs the work of a host; see `Host.work`."""
        self._requested("straggle")
        host.straggler = straggler or Straggler()

    def skew(self, host: Host, *, offset_s: float = 0.0, rate: float = 1.0) -> None:
        """Makes the clock of a host wrong; it never goes back."""
        if rate <= 0 or offset_s < host.clock.offset_s:
            message = f"a clock never goes back, got rate {rate} and offset {offset_s} s"
            raise ConfigError(message)
        self._requested("skew")
        now = host.clock.now()
        host.clock.rate = rate
        host.clock.offset_s = max(now - self.loop.time() * rate, 0.0) + offset_s

    def hold(
        self, source: Host, target: Host, matches: Callable[[Any], bool] = lambda _envelope: True
    ) -> Held:
        """Takes the next message from `source` to `target` that matches off its way, until it is released."""
        self._requested("hold")
        link = self.link(source.name, target.name)
        held = Held(link, matches)
        link.holds.append(held)
        return held

    # -- the account -------------------------------------------------------------------------------

    def _requested(self, kind: str) -> None:
        self.tally.requested[kind] += 1

    def _between(self, a: Iterable[Host], b: Iterable[Host], *, one_way: bool) -> list[Link]:
        a, b = list(a), list(b)
        pairs = [(x.name, y.name) for x in a for y in b]
        if not one_way:
            pairs += [(y, x) for x, y in pairs]
        return [self.link(x, y) for x, y in pairs]

    def _shuffled(self, hosts: list[Host]) -> list[Host]:
        left, order = list(hosts), []
        while left:
            order.append(left.pop(self._entropy.below(len(left))))
        return order

    def __repr__(self) -> str:
        return f"<World of {', '.join(self._hosts)}; {self.tally}>"
