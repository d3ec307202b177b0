"""Models in ONNX's format as graphs. `from actorflow.interop import onnx` needs `actorflow[onnx]` to load.

    model = onnx.load("net.onnx")
    async with af.Session(model.graph) as session:
        y = await session.run(model.outputs, {"x": images})

What ONNX lays out channels first is transposed around the ops here, which have channels last.
"""

from __future__ import annotations

from actorflow.interop.onnx.builder_table import OnnxNode, builder, list_supported
from actorflow.interop.onnx.builders import (  # noqa: F401  importing a module fills the table
    activation,
    attention,
    constants,
    control,
    conv,
    elementwise,
    indexing,
    linear,
    normalise,
    pieces,
    pool,
    quantise,
    random,
    recurrent,
    reduction,
    resize,
    sampling,
    shape,
    spectrum,
)
from actorflow.interop.onnx.model import Imported, inputs_to_fix, load

__all__ = ["Imported", "OnnxNode", "builder", "inputs_to_fix", "list_supported", "load"]
