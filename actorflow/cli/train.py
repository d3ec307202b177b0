"""`actorflow train FILE`: trains a program once a seed, shows how it goes, sums it up."""

from __future__ import annotations

import argparse
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from actorflow.cli.arguments import natural, positive
from actorflow.cli.cluster_arguments import add_history
from actorflow.cli.display.output import Output
from actorflow.cli.display.progress import Display, Log, ProgressBar, summary
from actorflow.cli.display.run_history import RunHistory
from actorflow.cli.exit_codes import STOPPED
from actorflow.errors import ActorflowError
from actorflow.runtime import event_loop
from actorflow.session.session import Session
from actorflow.training.events import RunDone
from actorflow.training.program import Program
from actorflow.training.program_file import ProgramFile
from actorflow.training.trainer import train

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_to(commands: Commands) -> None:
    """Adds the command and its arguments."""
    about = "Trains a program file, once for each seed."
    parser = commands.add_parser("train", help="train a program file", description=about)
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="a Python file that defines build(seed)")
    add("--seed", type=natural, default=0, metavar="N", help="the first seed (default 0)")
    add("--seeds", type=positive, default=1, metavar="K", help="train K times, with seeds N, N+1, ...")
    add("--epochs", type=positive, metavar="N", help="stop after N epochs, not the program's number")
    add("--steps", type=positive, metavar="N", help="stop after N steps")
    add_history(add)
    add("--no-progress", action="store_true", help="plain lines instead of a live bar")
    add(
        "--local", action="store_true", help="in this process alone, as always; for several, actorflow launch"
    )
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Trains every seed in turn; returns 0, or 130 when Ctrl-C stopped it."""
    file = ProgramFile(args.file)
    console = Output(soft_wrap=True)
    ended: dict[int, RunDone] = {}
    plain = args.no_progress or not console.is_terminal
    with RunHistory(args.history) as history:
        for seed in range(args.seed, args.seed + args.seeds):
            display: Display = Log(console, seed) if plain else ProgressBar(console, seed)
            try:
                program = file.program(seed)
                with display:
                    ended[seed] = event_loop.run(_train(program, display, history, args.epochs, args.steps))
            except KeyboardInterrupt:
                console.print(f"stopped by Ctrl-C at {display.at()}")
                summary(console, ended)
                return STOPPED
            except ActorflowError as error:
                error.add_note(f"  run:   {display.at()}")
                raise
            display.end(ended[seed])
    summary(console, ended)
    console.check()
    return 0


async def _train(
    program: Program, display: Display, history: RunHistory, epochs: int | None, steps: int | None
) -> RunDone:
    """Trains in a session of its own and returns the last event."""
    last: RunDone | None = None
    async with (
        Session(program.graph) as session,
        aclosing(train(program, session, epochs=epochs, steps=steps)) as events,
    ):
        async for event in events:
            display.show(event)
            history.tell(display.seed, event)
            if isinstance(event, RunDone):
                last = event
    assert last is not None  # train ends with one
    return last
