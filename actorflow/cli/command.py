"""Reads the arguments, calls one command, turns its end into an exit code.

Exit codes: 0 done, 1 the run failed, 2 the command line or the program file is wrong, 130 stopped
by Ctrl-C, 141 nobody reads its output any more. Errors go to stderr; a failure that actorflow did
not raise on purpose keeps its traceback.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from actorflow.cli.exit_codes import UNREAD
from actorflow.errors import ActorflowError, ConfigError, ProgramError
from actorflow.runtime import sigint
from actorflow.runtime.disk import is_full, loss_of, outlive

_EPILOG = """\
A program file is a Python file that defines build(seed), which returns an af.Program; see
examples/digits.py. Exit codes: 0 done, 1 the run failed, 2 the command line or the program file is
wrong, 130 stopped by Ctrl-C, 141 nobody reads its output any more."""


COMMANDS = ("train", "graph", "ops", "simulate", "launch", "worker", "dump", "top", "keys", "data")
"""Each is a module of this package, which is imported when it is asked for: all of them take a second."""

_LONG = (".train", ".simulate", ".launch", ".worker")
"""Those of which it is news that they have stopped."""

_TOLD = (".train",)
"""Those of which nothing stays but what they print."""

# What a stream without a name says that cannot be written. The program's own code does its writing
# inside build, batches, evaluate and test, whose failures are ProgramErrors.
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def run(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code; Ctrl-C is for the caller."""
    _prepare_streams()
    said = sys.argv[1:] if argv is None else argv
    parser = _parser(said)
    if not said:  # what there is to say
        parser.print_help(sys.stderr)
        return 2
    args = parser.parse_args(said)
    if args.command.__module__.endswith(_LONG):
        for name in ("stdout", "stderr"):
            outlive(name)
    try:
        code: int = args.command(args)
        sys.stdout.flush()
        if (loss := loss_of("stdout")) is not None and args.command.__module__.endswith(_TOLD):
            print(f"standard output must be writable, got {loss.reason}", file=sys.stderr)
            return code or 1
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # as in `actorflow graph FILE | head`: nobody reads on
            if error.filename is not None or error.errno not in _UNWRITABLE:
                raise
            print(f"standard output must be writable, got {error.strerror}", file=sys.stderr)
            code = 1
        else:
            code = UNREAD
            if args.command.__module__.endswith(
                _LONG
            ):  # else it is no news: it had no more to do than to print
                with suppress(OSError):
                    print("stopped: nobody reads standard output any more", file=sys.stderr, flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still in its buffer
        return code
    except ActorflowError as error:
        if args.traceback:
            raise
        print(_report(error), file=sys.stderr)
        wrong = isinstance(error, ProgramError | ConfigError) and not is_full(error)
        return 2 if wrong else 1
    return code


def _prepare_streams() -> None:
    """Opens standard streams that are closed, and lets them print every name as well as they can.

    The event loop would get the number of a closed one, and libuv ends a process for that.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  for the whole process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an ASCII terminal shows `?`


def _parser(argv: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Returns what reads a command line: knows the command that this one names, or all."""
    parser = argparse.ArgumentParser(
        prog="actorflow",
        description="Dataflow graphs whose nodes are asyncio actors.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"actorflow {_version()}")
    parser.add_argument("--traceback", action="store_true", help="show the Python traceback of every error")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    named = next((word for word in argv if not word.startswith("-")), None)
    for name in (named,) if named in COMMANDS else COMMANDS:
        with sigint.guard_sigint():
            command = import_module(f"actorflow.cli.{name}")
        command.add_to(commands)
    return parser


def _report(error: ActorflowError) -> str:
    """The error as its template has it, with its notes and the failure beneath it."""
    lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
    if error.__cause__ is not None:
        lines.append(f"  cause: {type(error.__cause__).__name__}: {error.__cause__}")
    return "\n".join(lines)


def _version() -> str:
    try:
        return version("actorflow")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "(not installed)"
