"""Names of devices as users write them: whole, or in part as a constraint.

A whole name is `/job:ps/task:0/device:cpu:0`: the first task of the job `ps`, and there the first
processor. A constraint leaves fields out, or puts `*` for any: `/job:ps`, `/task:1`, `/job:ps/gpu:*`.
`/cpu:0` and `cpu:0` are short for `/device:cpu:0`. A name that says neither job nor task means a device
of the session's own process; `/job:*/gpu:0` means that of any process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from actorflow.errors import ConfigError

ANY = "*"
_HINT = "a device is named like /job:ps/task:0/device:cpu:0, or in part: /job:ps, /gpu:*, cpu:0"
_FIELDS = {
    "job": re.compile(r"([A-Za-z][A-Za-z0-9_.-]*|\*)\Z"),
    "task": re.compile(r"(\d+|\*)\Z"),
    "device": re.compile(r"([A-Za-z]+)(?::(\d+|\*))?\Z"),
}


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A device, or what is asked of one; None in a field that is left open, `*` where any will do.

    INVARIANT: `kind` and `index` are both named or both open; numbers have no leading zeros.
    """

    job: str | None = None
    task: str | None = None
    kind: str | None = None
    index: str | None = None

    @classmethod
    def parse(cls, text: Any) -> DeviceName:
        """Returns the name that `text` writes; `""` leaves everything open.

        Raises:
            ConfigError: when it is no text, a field is unknown, malformed, or there twice.
        """
        if not isinstance(text, str):
            message = f"a device is named by a text, got {text!r:.60}"
            raise ConfigError(message, hint=_HINT)
        found: dict[str, tuple[str, ...]] = {}
        # A leading slash is optional; `""` leaves all open.
        for part in text.removeprefix("/").split("/") if text else ():
            head, _, tail = part.partition(":")
            # `/cpu:0` is short for `/device:cpu:0`.
            field, value = (head, tail) if head in _FIELDS else ("device", part)
            match = _FIELDS[field].match(value)
            if match is None:
                message = f"{part!r} is no part of the name of a device, got {text!r:.60}"
                raise ConfigError(message, hint=_HINT)
            if field in found:
                message = f"the name of a device says its {field} once, got {text!r:.60}"
                raise ConfigError(message, hint=_HINT)
            found[field] = match.groups()
        job, task, (kind, index) = found.get("job"), found.get("task"), found.get("device", (None, None))
        return cls(
            job=job[0] if job else None,
            task=_number(task[0]) if task else None,
            kind=kind.lower() if kind else None,
            # `gpu` alone means any of them.
            index=_number(index or ANY) if kind else None,
        )

    @property
    def names_process(self) -> bool:
        """Whether it says anything about the process."""
        return self.job is not None or self.task is not None

    @property
    def is_whole(self) -> bool:
        """Whether one device of one process is meant, or of the own process where none is named."""
        # Where no process is named the own one is meant.
        process = (self.job, self.task) if self.names_process else ()
        return all(field not in (None, ANY) for field in (*process, self.kind, self.index))

    @property
    def process(self) -> str:
        """The part that says the process, `/job:ps/task:0`; `""` where it is the own one."""
        job = "" if self.job is None else f"/job:{self.job}"
        return job if self.task is None else f"{job}/task:{self.task}"

    @property
    def within(self) -> str:
        """The part that says the device within its process, `/cpu:0`; `""` where none is named."""
        return "" if self.kind is None else f"/{self.kind}:{self.index}"

    def __str__(self) -> str:
        """The canonical form: short, as `/cpu:0`, where no process is named."""
        if self.kind is None or not self.names_process:
            return self.process + self.within
        return f"{self.process}/device:{self.kind}:{self.index}"

    def inside(self, outer: DeviceName) -> DeviceName:
        """Returns this name with the fields that it leaves open taken from `outer`."""
        # Kind and index come together, or neither does.
        mine = self.kind is not None
        return DeviceName(
            job=outer.job if self.job is None else self.job,
            task=outer.task if self.task is None else self.task,
            kind=self.kind if mine else outer.kind,
            index=self.index if mine else outer.index,
        )


def merge(inner: str, outer: str) -> str:
    """Returns what is asked inside two scopes, field by field; the inner one counts where both speak.

    A name that nothing is added to stays as it was written.

    Raises:
        ConfigError: when one of them is no name of a device.
    """
    name = DeviceName.parse(inner)
    # ORDER: parsed first, since a scope that is no name is refused wherever it stands.
    if not outer:
        return inner
    if not inner:
        return outer
    return str(name.inside(DeviceName.parse(outer)))


def _number(text: str) -> str:
    return text if text == ANY else str(int(text))
