"""Whole nets and exported layers that come with the package onnx, against the importer.

`python -m tests.oracle.onnx_models`. Nine nets (AlexNet to DenseNet-121, with constant weights) and
what PyTorch once exported, opset 6. Unlike the node tests these lie in files, and `load` reads them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from actorflow.errors import ActorflowError
from actorflow.interop import onnx
from tests.oracle.onnx_nodes import differences

LEAST = {"light": 9, "pytorch-converted": 82, "pytorch-operator": 35}
"""How many of each kind must pass: all of them."""


def data() -> Path:
    """Where the package keeps its models."""
    import onnx.backend.test as suite

    return Path(suite.__file__).parent / "data"


def arrays(folder: Path, pattern: str) -> list[Any]:
    """The arrays in files, in the order of their numbers."""
    from onnx import TensorProto, numpy_helper

    paths = sorted(folder.glob(pattern), key=lambda path: int(path.stem.rsplit("_", 1)[1]))
    return [numpy_helper.to_array(TensorProto.FromString(path.read_bytes())) for path in paths]


def nets() -> Iterator[tuple[Path, list[Any], list[Any]]]:
    """The path, inputs and outputs of the nets; the input is the one that their outputs were made of."""
    for path in sorted((data() / "light").glob("*.onnx")):
        (x,) = onnx.load(path).inputs.values()
        sizes = tuple(size or 1 for size in x.shape or ())
        image = (np.arange(np.prod(sizes)) / np.prod(sizes)).astype(x.dtype).reshape(sizes)
        yield path, [image], arrays(path.parent, f"{path.stem}_output_*.pb")


def layers(kind: str) -> Iterator[tuple[Path, list[Any], list[Any]]]:
    """The path, inputs and outputs of the models of one kind, once for each set of data."""
    for folder in sorted((data() / kind).iterdir()):
        for given in sorted(folder.glob("test_data_set_*")):
            yield folder / "model.onnx", arrays(given, "input_*.pb"), arrays(given, "output_*.pb")


async def wrong(path: Path, given: list[Any], expected: list[Any]) -> str:
    """What is wrong with a model, "" when nothing is."""
    try:
        model = onnx.load(path)
        feeds = dict(zip(model.inputs, given, strict=True))
        return await differences(model, feeds, expected, rtol=1e-3, atol=1e-5)
    except ActorflowError as error:
        return str(error)


async def passed(kind: str) -> int:
    """Runs all of a kind, prints what fails, and returns how many models pass."""
    failed, models = set(), set()
    for path, given, expected in nets() if kind == "light" else layers(kind):
        models.add(path)
        message = await wrong(path, given, expected)
        if message:
            failed.add(path)
            print(f"FAILED {path}\n  " + message.replace("\n", "\n  "))
    print(f"{kind}: {len(models - failed)} passed, {len(failed)} failed, {len(models)} in all")
    return len(models - failed)


def main() -> int:
    short = [kind for kind, least in LEAST.items() if asyncio.run(passed(kind)) < least]
    for kind in short:
        print(f"fewer than {LEAST[kind]} of {kind} passed")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
