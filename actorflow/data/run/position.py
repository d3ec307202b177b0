"""Where a stream is, as plain data, and whether that fits a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from actorflow.data.run.pipeline_plan import Stage, fingerprint
from actorflow.data.sources.protocol import Once, Source
from actorflow.errors import InputError, Where
from actorflow.runtime.call_site import source_line
from actorflow.runtime.clock import Entropy

_VERSION = 1
_ANEW = "read what can be read again, such as files, or fill the queue anew and open the pipeline without one"


@dataclass(slots=True)
class Position:
    """How far a stream has come.

    Attributes:
        fingerprint: Of the pipeline.
        taken: Elements given before the stream was opened.
        seed: Of the stages that were given none; -1 until it is drawn.
        loose: A stage that gives no fixed order, if there is one.
        once: Why the source cannot be read again, if it cannot.
    """

    fingerprint: str
    taken: int
    seed: int
    loose: Stage | None
    once: str | None

    @classmethod
    def of(cls, source: Source, stages: Sequence[Stage], data: Mapping[str, Any] | None) -> Self:
        """Returns the position that `data` tells, or the start.

        Raises:
            InputError: it is none, or of another pipeline, or the source cannot be read again.
        """
        mark = fingerprint(source.name, source.size, stages)
        loose = next((s for s in stages if s.workers is not None and not s.workers.ordered), None)
        once = source.once if isinstance(source, Once) else None
        # A source that cannot be read again can be run; it only has no position.
        if once is not None:
            once = f"a stream of {source.name} has no position: {once}"
        if data is None:
            return cls(mark, 0, -1, loose, once)
        here = Where(defined_at=source_line())
        if once is not None:
            raise InputError(once, where=here, hint=_ANEW)
        try:
            version, theirs = data["version"], data["pipeline"]
            taken, seed = data["taken"], data["seed"]
        except (TypeError, KeyError) as error:
            what = f"a position is what Stream.position() gave, got {data!r:.80}"
            raise InputError(what, where=here) from error
        whole = all(type(each) is int for each in (version, taken, seed))
        if not whole or version != _VERSION or taken < 0:
            what = f"a position is what Stream.position() gave, got {dict(data)!r:.120}"
            raise InputError(what, where=here)
        # ORDER: plain data of the right kind first; then whether it is of this pipeline.
        if theirs != mark:
            what = f"this position is of another pipeline: of {theirs}, and this one is {mark}"
            hint = "open it with the pipeline, and the source, that it was taken from"
            raise InputError(what, where=here, hint=hint)
        return cls(mark, taken, seed, loose, once)

    def settle(self, stages: Sequence[Stage], entropy: Entropy) -> None:
        """Draws the seed, where one is needed and there is none."""
        if self.seed < 0:
            # Drawn only where something needs it: else the same pipeline has the same position in every run.
            self.seed = entropy.below(2**63) if any(s.unseeded for s in stages) else 0

    def after(self, given: int) -> dict[str, Any]:
        """Returns the position after so many more elements, as plain data.

        Raises:
            InputError: the elements come in no fixed order, or the source cannot be read again.
        """
        if self.once is not None:
            raise InputError(self.once, where=Where(defined_at=source_line()), hint=_ANEW)
        if self.loose is not None:
            what = (
                f"no position is fixed behind {self.loose.call_site.label}: with ordered=False any may be "
                "next"
            )
            raise InputError(
                what, where=Where(defined_at=self.loose.call_site.line), hint="map with ordered=True"
            )
        return {
            "version": _VERSION,
            "pipeline": self.fingerprint,
            "taken": self.taken + given,
            "seed": self.seed,
        }
