"""torch's DistributedDataParallel over gloo: a process a worker, one thread each; rank 0 keeps the time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import pairwise
from time import perf_counter
from typing import Any

from benchmarks.peers.gloo_ import free_port
from benchmarks.peers.second import Second, say, second
from benchmarks.programs import BYTES, MLPS, RATE, ROWS, WIDTH

NOTE = "one step of DistributedDataParallel and SGD on every rank; no server, no copy of the parameters moves"
REDUCE_NOTE = "dist.all_reduce of as many bytes, and nothing else"


class Group:
    """The first process's end: it tells all ranks what to do."""

    def __init__(self, ranks: list[Second]) -> None:
        self._ranks = ranks

    async def step(self, what: str, n: int) -> float:
        """Returns the seconds of `n` steps of a program of `programs`."""
        return await self._all("step", what, n)

    async def reduce(self, what: str, n: int) -> float:
        """Returns the seconds of `n` reductions of its parameters' bytes."""
        return await self._all("reduce", what, n)

    async def _all(self, *words: object) -> float:
        for rank in self._ranks:
            rank.tell(*words)
        return max([float(await rank.answer()) for rank in self._ranks])


@contextmanager
def open_group(workers: int) -> Iterator[Group]:
    """Starts its processes."""
    port = str(free_port())
    with ExitStack() as stack:
        yield Group(
            [
                stack.enter_context(second("peers.ddp_", port, str(rank), str(workers)))
                for rank in range(workers)
            ]
        )


def main(port: str, rank: str, workers: str) -> None:
    """Is one of them."""
    torch: Any = import_module("torch")
    dist: Any = import_module("torch.distributed")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=int(rank), world_size=int(workers)
    )
    torch.manual_seed(int(rank))
    made: dict[tuple[str, str], Callable[[], object]] = {}
    for line in sys.stdin:
        verb, what, n = line.split()
        if (verb, what) not in made:
            made.clear()  # the next metric: tables of 1 GB are not kept
            size = 4 if what == "scalar" else BYTES.get(what.partition("_")[2], 4)
            tensor = None if verb == "step" else torch.zeros(size // 4)
            made[verb, what] = _step(torch, what) if tensor is None else _reduction(dist, tensor)
            made[verb, what]()
        do = made[verb, what]
        dist.barrier()
        start = perf_counter()
        for _ in range(int(n)):
            do()
        say(perf_counter() - start)
    dist.destroy_process_group()


def _reduction(dist: Any, tensor: Any) -> Callable[[], object]:
    return lambda: dist.all_reduce(tensor)


def _step(torch: Any, what: str) -> Callable[[], object]:
    """Returns what makes one step of a program."""
    nn: Any = torch.nn
    if what in MLPS:
        batch, sizes = MLPS[what]
        layers: list[Any] = []
        for i, (a, b) in enumerate(pairwise(sizes)):
            layers += [nn.Linear(a, b), *([nn.ReLU(inplace=True)] if i + 2 < len(sizes) else [])]
        model = nn.Sequential(*layers)
        x, y = torch.randn(batch, sizes[0]), torch.randint(0, sizes[-1], (batch,))

        def loss(model: Any) -> Any:
            return nn.functional.cross_entropy(model(x), y)
    elif what.startswith("sparse"):
        rows = BYTES[what.partition("_")[2]] // 4 // WIDTH
        model = nn.Embedding(rows, WIDTH, sparse=True, _weight=torch.zeros(rows, WIDTH))
        keys = torch.randint(0, rows, (ROWS,))

        def loss(model: Any) -> Any:
            return model(keys).sum()
    else:
        model = _sum(torch, 1 if what == "scalar" else BYTES[what.partition("_")[2]] // 4)

        def loss(model: Any) -> Any:
            return model()

    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=RATE)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(parallel).backward()
        optimizer.step()

    return step


def _sum(torch: Any, n: int) -> Any:
    class Sum(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(n))

        def forward(self) -> Any:
            return self.w.sum()

    return Sum()


if __name__ == "__main__":
    main(*sys.argv[1:])
