"""Arguments that the commands with clusters share, and how a launcher hands them on.

Light to import: a launcher knows no graph and no actors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actorflow.cli.arguments import links, natural, parse_delay, policy, positive, seconds
from actorflow.cluster.link_text import format_settings, silent_after
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings


def add_common(add: Callable[..., Any], links: Callable[[str], LinkSettings] = links) -> None:
    """Adds the arguments that all processes of a cluster share; `links` reads how links behave."""
    add("--seed", type=natural, default=0, metavar="N", help="the seed to build with (default 0)")
    add("--keys", metavar="FILE", help="the key ring, see `actorflow keys`; none: without")
    add(
        "--threads",
        type=natural,
        default=1,
        metavar="N",
        help="threads for slow kernels (default 1; 0: none)",
    )
    add("--ready-s", type=seconds, default=60.0, metavar="S", help="wait so long for the others (default 60)")
    add("--lost-s", type=seconds, default=10.0, metavar="S", help="wait so long for a chief that is gone")
    add(
        "--stop-s",
        type=seconds,
        default=60.0,
        metavar="S",
        help="an actor may take so long to stop (default 60)",
    )
    add("--silence-s", type=seconds, metavar="S", help="a peer that says nothing for so long is lost")
    add("--links", type=links, default="", metavar="TEXT", help="how links behave: silence_s=30,gone_s=5")
    add("--delay", type=parse_delay, metavar="TEXT", help="hold workers up: work_s=0.5,p=0.1,stall_s=0.3")


def links_of(args: argparse.Namespace) -> LinkSettings:
    """Returns what links may hold and how long they wait, as these arguments say."""
    given: LinkSettings = args.links
    return given if args.silence_s is None else silent_after(args.silence_s, given)


def common(args: argparse.Namespace) -> list[str]:
    """Returns these arguments as a command line has them."""
    said = [
        "--seed",
        args.seed,
        "--threads",
        args.threads,
        "--ready-s",
        args.ready_s,
        "--lost-s",
        args.lost_s,
        "--stop-s",
        args.stop_s,
    ]
    if args.keys is not None:
        said += ["--keys", args.keys]
    if (links := links_of(args)) != SETTINGS:
        said += ["--links", format_settings(links)]
    if args.delay is not None:
        said += ["--delay", args.delay]
    return [str(part) for part in said]


def training(args: argparse.Namespace) -> list[str]:
    """Returns the arguments of the chief as a command line has them."""
    said = ["--policy", args.policy]
    for name in ("epochs", "steps", "least", "record", "history"):
        if getattr(args, name) is not None:
            said += [f"--{name}", getattr(args, name)]
    flags = ["--no-progress"] * args.no_progress + ["--chaos"] * args.chaos
    return [*map(str, said), *flags]


def history_file(text: str) -> Path:
    """Returns the argument of `--history`; its ending says what is written."""
    path = Path(text)
    if path.suffix not in (".jsonl", ".csv"):
        message = f"a history is FILE.jsonl or FILE.csv, got {text!r:.60}"
        raise argparse.ArgumentTypeError(message)
    return path


def add_history(add: Callable[..., Any]) -> None:
    """Adds the argument for a file of figures."""
    text = "write every figure of the run to FILE.jsonl or FILE.csv"
    add("--history", type=history_file, metavar="FILE", help=text)


def add_training(add: Callable[..., Any]) -> None:
    """Adds the arguments that are the chief's."""
    texts = "sync, backup:3/4, async, stale:2 ..., or one of your own: file.py:Class"
    add("--policy", type=policy, default="sync", metavar="TEXT", help=texts)
    add("--epochs", type=positive, metavar="N", help="stop after N epochs, not the program's number")
    add("--steps", type=positive, metavar="N", help="stop after N updates")
    add(
        "--least",
        type=positive,
        metavar="N",
        help="begin with N workers; those that come later take part then",
    )
    add("--record", type=Path, metavar="FILE", help="write who ran it, and on what, as JSON")
    add_history(add)
    add("--no-progress", action="store_true", help="plain lines instead of a live view")
    add("--chaos", action="store_true", help="kill the worker that contributed last, at a third of the run")
