"""Every benchmark runs, with the rows that its readers rely on; how fast it runs is not a test's business."""

from __future__ import annotations

import gc
import sys

import pytest

import benchmarks
from actorflow.runtime.event_loop import run
from benchmarks import codec, control_flow, lm, registry, sync_step, transport
from benchmarks.__main__ import compete, main
from benchmarks.harness import Size
from benchmarks.registry import UnknownBenchmark

ONCE = Size(rounds=1, warm_up=0, share=1e-3)
METRICS = {
    "atomic": ["transfer_us", "transfer_concurrent_us"],
    "codec": [
        *(
            f"{metric}_{size}{unit}"
            for size in ("64b", "1kb", "4kb", "64kb", "1mb", "64mb")
            for metric, unit in (("encode", "_us"), ("decode", "_us"), ("both", "_us"), ("both", ""))
        ),
        *(
            f"{verb}_{what}_us"
            for what in ("beat", "permit", "1mb_bfloat16")
            for verb in ("encode", "decode", "both")
        ),
    ],
    "control_flow": [
        *(f"while_inline_{body}" for body in ("scalar", "512x512")),
        *(f"while_lowered_{body}" for body in ("scalar", "512x512")),
        "sleeping_16_ms",
        "rnn_100_ms",
        "rnn_memory",
    ],
    "dispatch": [
        "firings_chain",
        "firings_100x100",
        "tell",
        "ask_idle_us",
        "ask_queued_us",
        "ask_async_us",
        "ask_100_us",
    ],
    "lm": ["words_1", "words_2"],
    "optimizers": [
        f"{name}_ms"
        for name in (
            "sgd",
            "momentum",
            "nesterov",
            "adagrad",
            "adadelta",
            "rmsprop",
            "rmsprop_centred",
            "adam",
            "amsgrad",
            "adamw",
            "adamax",
            "nadam",
            "lion",
            "ftrl",
            "lamb",
            "lbfgs",
        )
    ],
    "input": [f"{what}_{n}_workers" for n in (0, 2) for what in ("elements", "megabytes")],
    "placement": [f"{what}_{n}_ms" for n in (100, 1_000, 10_000) for what in ("makespan", "planning")],
    "backpressure": ["peak_inline", "peak_2_threads", "blocked_cpu_ms"],
    "state": [
        *(
            f"{verb}_{size}"
            for size in ("1kb", "100mb")
            for verb in ("read", "update", "update_held", "assign")
        ),
        "queue_ops",
        "leave_ms",
    ],
    "transport": [
        "messages_64b_curve",
        "round_trip_64b_curve_us",
        "stream_2mb_curve",
        "messages_64b_shm",
        "round_trip_64b_shm_us",
        "stream_2mb_shm",
        "tell_64b_ipc",
        "ask_64b_ipc_us",
    ],
    "sync_step": ["scalar_1_ms", "scalar_2_ms", "tiny_mlp_2_ms"],
    "session": ["run_us", "run_concurrent_us", "null_ops_chain", "null_ops_100x100"],
}


def test_every_file_that_registers_a_benchmark_is_found() -> None:
    assert {*METRICS, "sync_more"} <= set(registry.table())


@pytest.mark.slow
@pytest.mark.wire
@pytest.mark.parametrize("name", METRICS)
def test_a_benchmark_has_its_metrics_and_every_side_of_them_ran(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is timed here, so the collector need not come before each round, nor arrays be the largest.

    Where processes are started, few of the ways and steps are gone through.
    """
    monkeypatch.setattr(gc, "collect", lambda *_: 0)
    monkeypatch.setitem(codec.BYTES, "64mb", 1 << 22)
    monkeypatch.setattr(transport, "WAYS", ("curve", "shm"))
    monkeypatch.setattr(transport, "BYTES", {"2mb": 2 << 20})
    monkeypatch.setattr(sync_step, "UPDATES", {"scalar": 50})
    monkeypatch.setattr(control_flow, "LENGTHS", (100,))
    monkeypatch.setattr(control_flow, "KEEPING", {"loop": "without recompute"})
    monkeypatch.setattr(lm, "UNITS", 16)
    monkeypatch.setattr(sync_step, "MLP_UPDATES", {"tiny_mlp": 50})

    _, rows = run(compete(registry.find(name), ONCE))

    assert list(dict.fromkeys(row.contest.metric for row in rows)) == METRICS[name]
    assert all(row.ours.median > 0 for row in rows)
    assert all((row.theirs is None) == ("(absent: install " in row.peer.name) for row in rows)


def test_a_name_that_nobody_registered_is_refused_with_the_others_listed() -> None:
    with pytest.raises(
        UnknownBenchmark,
        match=r"there is no benchmark 'dispach'; there are atomic, backpressure, codec, control_flow, dispatch, finite, input, lm",
    ):
        registry.find("dispach")


def test_a_benchmark_whose_module_is_missing_says_so_and_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others = {name: each for name, each in registry.table().items() if name != "simulation"}
    monkeypatch.setattr(registry, "_TABLE", others)
    monkeypatch.setattr(registry, "_ABSENT", {})
    monkeypatch.setitem(sys.modules, "hypothesis", None)  # as where it is not installed
    monkeypatch.delitem(sys.modules, "benchmarks.simulation", raising=False)
    monkeypatch.delattr(benchmarks, "simulation", raising=False)
    why = "it needs the module hypothesis, which is not installed here"
    assert METRICS.keys() - {"simulation"} <= registry.table().keys()
    with pytest.raises(UnknownBenchmark, match=f"the benchmark simulation cannot be run: {why}"):
        registry.find("simulation")
    assert main(["--list"]) == 0
    assert f"simulation   not here: {why}\n" in capsys.readouterr().out
    assert main(["simulation"]) == 2
