"""Nets that torch exports with open batch and time, against onnxruntime: `python -m tests.oracle.exported`.

Each net is built with random weights, exported by both of torch's exporters with sizes left open, read by the
importer as it lies in its file, and compared with onnxruntime at every batch and time. None is given shapes
or fixed inputs. What torch itself cannot export is named below with its reason, and every reason must still
be true.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import actorflow as af
from actorflow.errors import ActorflowError
from actorflow.interop import onnx

BATCHES = (1, 2, 5)
TIMES = (4, 7, 12)
"""Lengths of sequences; images have twice as many rows, and two columns more."""

LEAST = 22
"""How many exported models must pass: all of them."""

NEEDED = ("torch", "onnx", "onnxscript", "onnxruntime")

TORCH_CANNOT = {
    "encoder (traced)": "the traced layer of torch holds the length that it was traced with; onnxruntime refuses another",
    "decoder (traced)": "as the encoder",
    "aligning (dynamo)": "torch.export makes numbers of the sizes that affine_grid is given",
    "rnn (dynamo)": "torch.export unrolls nn.RNN over the length that it sees, and refuses an open one",
}
"""Exports that fail in torch or onnxruntime, by their names; each must still fail."""


@dataclass(frozen=True)
class Net:
    """A net, and whether it takes images (n, 3, 2t, 2t + 2) or sequences (n, t, 6)."""

    name: str
    build: Callable[[], Any]
    images: bool = False
    opset: int | None = None

    def given(self, batch: int, time: int) -> Any:
        shape = (batch, 3, 2 * time, 2 * time + 2) if self.images else (batch, time, 6)
        return np.random.default_rng(batch * 100 + time).standard_normal(shape).astype("float32")

    def open_axes(self) -> dict[int, str]:
        return {0: "batch", 2: "rows", 3: "columns"} if self.images else {0: "batch", 1: "time"}


def nets() -> tuple[Net, ...]:
    """The nets; they are torch's, which need not be there before."""
    from torch import nn

    from tests.oracle import exported_nets as made

    return (
        Net("upsampling", made.Upsampling, images=True),
        Net("segmenting", made.Segmenting, images=True),
        Net("warping", made.Warping, images=True),
        Net("aligning", made.Aligning, images=True),
        Net("lstm", lambda: made.Recurrent(nn.LSTM, bidirectional=True, num_layers=2)),
        Net("gru", lambda: made.Recurrent(nn.GRU, bidirectional=True)),
        Net("rnn", lambda: made.Recurrent(nn.RNN, nonlinearity="relu")),
        Net("transformer", made.Transformer),
        Net("encoder", made.Encoder),
        Net("decoder", made.Decoder),
        Net("causal", made.Causal),
        Net("fused", made.Fused, opset=23),
        Net("sequence", made.Sequence1d),
    )


class NotExported(Exception):
    """torch or onnxruntime could not do it."""


def export(net: Net, path: Path, *, dynamo: bool) -> None:
    """Writes a net by one of torch's exporters, its batch and time left open."""
    import torch

    torch.manual_seed(0)
    module = net.build().eval()
    x = torch.from_numpy(net.given(2, 6))
    settings: Mapping[str, Any]
    if dynamo:
        dims = dict.fromkeys(net.open_axes(), torch.export.Dim.DYNAMIC)
        settings = {"dynamic_shapes": (dims,), "verbose": False, "opset_version": net.opset}
    else:
        settings = {"dynamic_axes": {"x": net.open_axes()}, "opset_version": net.opset or 20}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(module, (x,), str(path), input_names=["x"], dynamo=dynamo, **settings)
        except (RuntimeError, ValueError) as error:  # torch's own, of whatever kind
            message = str(error).strip().split("\n")[0]
            raise NotExported(message) from error


def expected(path: Path, net: Net) -> dict[tuple[int, int], list[Any]]:
    """What onnxruntime gives at every batch and time."""
    import onnxruntime

    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    try:
        theirs = onnxruntime.InferenceSession(str(path), quiet, providers=["CPUExecutionProvider"])
        return {(n, t): theirs.run(None, {"x": net.given(n, t)}) for n in BATCHES for t in TIMES}
    except Exception as error:
        message = f"onnxruntime: {error}".split("\n")[0]
        raise NotExported(message) from error


async def wrong(net: Net, path: Path, theirs: Mapping[tuple[int, int], list[Any]]) -> str:
    """What differs from onnxruntime, "" when nothing does."""
    model = onnx.load(path)
    async with af.Session(model.graph, threads=0) as session:
        for (batch, time), arrays in theirs.items():
            got = await session.run(dict(model.outputs), {"x": net.given(batch, time)})
            for name, array in zip(model.outputs, arrays, strict=True):
                mine, at = got[name], f"{name} at batch {batch}, time {time}"
                if mine.shape != array.shape or mine.dtype != array.dtype:
                    return f"{at}: {mine.shape} {mine.dtype}, onnxruntime {array.shape} {array.dtype}"
                if not np.allclose(mine, array, rtol=1e-4, atol=1e-4):
                    return f"{at} differs by {np.abs(mine - array).max():.2e}"
    return ""


def outcome(net: Net, path: Path, *, dynamo: bool) -> str:
    """What is wrong with one exported model, "" when nothing is."""
    export(net, path, dynamo=dynamo)
    theirs = expected(path, net)
    try:
        return asyncio.run(wrong(net, path, theirs))
    except ActorflowError as error:
        return str(error)


def outcomes(chosen: str = "") -> Iterator[tuple[str, str | None]]:
    """The name of each exported model and what is wrong with it; None where torch could not, as is known."""
    with tempfile.TemporaryDirectory() as folder:
        for net in nets():
            for kind in ("traced", "dynamo") if chosen in net.name else ():
                name = f"{net.name} ({kind})"
                path = Path(folder) / f"{net.name}-{kind}.onnx"
                try:
                    message = outcome(net, path, dynamo=kind == "dynamo")
                except NotExported as error:
                    yield name, None if name in TORCH_CANNOT else f"not exported: {error}"
                    continue
                yield (
                    name,
                    "it passes, and is named as what torch cannot" if name in TORCH_CANNOT else message,
                )


def main() -> int:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"exported: skipped, there is no {', '.join(missing)}: pip install 'actorflow[oracle]'")
        return 0
    logging.disable(logging.WARNING)  # of torch, on packages that nothing here needs
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    passed = failed = 0
    for name, message in outcomes(chosen):
        if message is None:
            print(f"    not exported: {name}: {TORCH_CANNOT[name]}")
            continue
        passed, failed = passed + (not message), failed + bool(message)
        if message:
            print(f"FAILED {name}\n  " + message.replace("\n", "\n  "), flush=True)
    sizes = f"each at batches {BATCHES} and times {TIMES}"
    print(f"exported: {passed} passed, {failed} failed, {passed + failed} in all, {sizes}")
    return 1 if failed or (not chosen and passed < LEAST) else 0


if __name__ == "__main__":
    sys.exit(main())
