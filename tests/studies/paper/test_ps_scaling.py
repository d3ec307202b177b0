"""Words a second over parameter servers: what the paper says of Figure 9."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from actorflow.errors import ConfigError
from studies.paper.numbers import Figure, figure
from studies.paper.ps_scaling import SOFTMAXES, Softmax, words_per_s


@cache
def words(softmax: Softmax, ps_tasks: int, workers: int) -> float:
    return words_per_s(softmax, ps_tasks, workers, steps=2)


@pytest.mark.slow
@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_a_second_server_helps_more_than_eight_times_the_workers(softmax: Softmax) -> None:
    second = min(words(softmax, 2, n) / words(softmax, 1, n) for n in (4, 32, 256))
    more_workers = max(words(softmax, 1, 8 * n) / words(softmax, 1, n) for n in (4, 32))

    assert second > 1.5 > 1.25 > more_workers


def test_without_what_is_fitted_for_a_single_server_it_would_not_help_four_workers_so_much() -> None:
    """The claim rests on `alone_s`, which has no mechanism; the figures page says so."""
    found = figure("ps-scaling")
    none = replace(found.parameters["alone_s"], value=0.0)
    given = Figure(found.paper, {**found.parameters, "alone_s": none})

    one, two, more = (words_per_s("full", p, n, steps=2, given=given) for p, n in ((1, 4), (2, 4), (1, 32)))

    assert two / one < more / one


@pytest.mark.slow
@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_words_saturate_once_the_workers_own_part_is_longest(softmax: Softmax) -> None:
    by_servers = [words(softmax, p, 4) for p in (1, 2, 4, 8, 16, 32)]
    found = figure("ps-scaling")
    own_s = found["lstm_s"] + found["classes" if softmax == "full" else "sampled"] * found["class_s"]

    assert by_servers == pytest.approx(sorted(by_servers), rel=0.02)
    assert by_servers[-1] < 1.05 * by_servers[-2]
    assert by_servers[1] > 1.5 * by_servers[0]
    assert by_servers[-1] < 4 / own_s


@pytest.mark.slow
@pytest.mark.parametrize("workers", [4, 32])
def test_a_sampled_softmax_is_faster_everywhere(workers: int) -> None:
    for ps_tasks in (1, 2, 4, 8):
        assert words("sampled", ps_tasks, workers) > words("full", ps_tasks, workers)


@pytest.mark.slow
def test_full_servers_double_what_they_do_with_their_number() -> None:
    assert words("full", 4, 256) == pytest.approx(2 * words("full", 2, 256), rel=0.1)


def test_the_same_seed_takes_the_same_time() -> None:
    first = words_per_s("full", 2, 2, steps=2, seed=5)

    assert words_per_s("full", 2, 2, steps=2, seed=5) == first
    assert words_per_s("full", 2, 2, steps=2, seed=6) != first


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_none_of_something_is_refused(numbers: tuple[int, int, int]) -> None:
    ps_tasks, workers, steps = numbers

    with pytest.raises(ConfigError, match="at least 1"):
        words_per_s("full", ps_tasks, workers, steps=steps)
