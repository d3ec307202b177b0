"""What leaves and comes while a contribution is made: early gradients, values in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from actorflow import errors
from actorflow.coord.actors import contribution_pipeline
from actorflow.coord.rules.messages import (
    Computed,
    Missed,
    Pull,
)
from tests.coord.counterparts import Shard
from tests.coord.crew import Computes, Crew, Steps, crewed
from tests.support.faults import planted


def test_what_a_shard_has_told_to_hold_is_pulled_in_parts_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contribution_pipeline, "PART_BYTES", 1)
    held = {"w": np.float32(1.0), "b": np.float32(2.0)}, {"c": np.float32(3.0)}

    def pulled(**options: Any) -> list[list[Any]]:
        async def body(crew: Crew) -> list[list[Any]]:
            for number in (1, 2):
                await crew.permit(number)
            assert len(crew.chief.said(Computed)) == 2
            assert [sorted(values) for _, values, _ in crew.computes.given] == [["b", "c", "w"]] * 2
            return [[pull.names for pull in shard.pulls] for shard in crew.shards]

        found: list[list[Any]] = crewed(body, values=held, **options)
        return found

    assert pulled() == [[None, ("w",), ("b",)], [None, None]]
    assert pulled(fresh=False) == [[None, None], [None, None]], "then one shard may give two versions"


def test_parts_of_two_versions_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Shard, "receive")
    async def moving_on(receive: Any, self: Shard, message: Any) -> Any:
        answer = await receive(self, message)
        late = isinstance(message, Pull) and message.names == ("b",)
        return replace(answer, version=answer.version + 1) if late else answer

    async def body(crew: Crew) -> list[type]:
        for number in (1, 2):
            await crew.permit(number)
        assert len(crew.shards[0].kept) == 1
        return [type(message) for message in crew.chief.said(Computed, Missed)]

    monkeypatch.setattr(contribution_pipeline, "PART_BYTES", 1)
    held = {"w": np.float32(1.0), "b": np.float32(2.0)}, {"c": np.float32(3.0)}

    assert crewed(body, values=held) == [Computed, Missed]


class EarlySteps(Steps):
    """Its gradients are there before it has ended."""

    async def gradients(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: np.float32(self.number) for name in names}


class Early(Computes):
    """Begins such steps."""

    def begin(self, number: int, batch: Any) -> Steps:
        return EarlySteps(self, number, batch)


def test_what_has_left_of_a_step_that_fails_in_the_end_is_not_told_to_be_computed() -> None:
    async def body(crew: Crew) -> None:
        await crew.permit(1)
        assert [contribution.number for shard in crew.shards for contribution in shard.kept] == [1, 1]
        assert crew.chief.said(Computed, Missed) == []
        await asyncio.sleep(1.0)
        (missed,) = crew.chief.said(Computed, Missed)
        assert missed.error.what == f"{error.what}; 'here' computed it of batch 0 of epoch 0"

    error = errors.NumericError("the loss must stay finite, got nan")
    crewed(body, computes=Early(1.0, error))


def test_shards_that_close_by_themselves_get_nothing_before_all_is_computed() -> None:
    async def body(crew: Crew) -> None:
        await crew.permit(1)
        assert not any(shard.kept for shard in crew.shards)
        await asyncio.sleep(1.0)
        assert all(shard.kept for shard in crew.shards)

    crewed(body, computes=Early(1.0), apart=True)
