"""Reads ONNX's files and messages: models, dtypes, arrays, specs and attributes as plain values.

The only module that knows the package `onnx`, which the extra `actorflow[onnx]` installs.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from actorflow.errors import OnnxError
from actorflow.values.arrays import Array, DType, as_dtype
from actorflow.values.spec import Spec

Model = Any
"""An onnx.ModelProto."""


def package(name: str = "onnx") -> Any:
    """Returns a module of the package `onnx`; raises OnnxError when it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        message = f"the package onnx cannot be imported: {error}"
        raise OnnxError(message, hint="pip install 'actorflow[onnx]'") from error


def read(source: Any) -> tuple[Model, str]:
    """Returns a checked model, its own functions written out, and how errors call it.

    Args:
        source: A path, the bytes of a file, or an onnx.ModelProto.

    Raises:
        OnnxError: for a file that is not there, is no model, or does not pass ONNX's checker.
    """
    onnx = package()
    if isinstance(source, onnx.ModelProto):
        model, called = source, f"the ONNX model {source.graph.name!r}"
    elif isinstance(source, bytes | bytearray | memoryview):
        model, called = _parse(bytes(source), "the ONNX model"), "the ONNX model"
    else:
        if not isinstance(source, str | os.PathLike):
            message = f"a model is a path, the bytes of a file, or an onnx.ModelProto, got {source!r:.60}"
            raise OnnxError(message)
        path = os.fspath(source)
        called = f"the ONNX model {path!r}"
        model = _from_file(path, called)
    # Bytes have no folder in which the other file could lie.
    if any(_is_elsewhere(tensor) for tensor in model.graph.initializer):
        message = f"{called} has data that lies in another file"
        raise OnnxError(message, hint="load the model by its path")
    checker = package("onnx.checker")
    try:
        checker.check_model(model)
        # Functions of the model's own become nodes, so that builders see ops alone.
        if model.functions:
            model = package("onnx.inliner").inline_local_functions(model)
    except (checker.ValidationError, ValueError) as error:  # ValueError: a name that is no text
        message = f"{called} is broken: {_first_line(error)}"
        raise OnnxError(message, hint="onnx.checker.check_model says more") from error
    return model, called


def _from_file(path: str, called: str) -> Model:
    try:
        with open(path, "rb") as file:
            model = _parse(file.read(), called)
        external = package("onnx.external_data_helper")
        # Beside the model, whatever the current folder is.
        external.load_external_data_for_model(model, os.path.dirname(path))
    except (OSError, ValueError, package("onnx.checker").ValidationError) as error:
        message = f"{called} cannot be read: {_first_line(error)}"
        raise OnnxError(message) from error
    return model


def _parse(data: bytes, called: str) -> Model:
    """The model in `data`."""
    try:
        return package().load_model_from_string(data)
    except package("google.protobuf.message").DecodeError as error:
        message = f"{called} is no ONNX file, or a part of one: {_first_line(error)} ({len(data)} bytes)"
        raise OnnxError(message, hint="copy or export it again") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def opsets(model: Model) -> dict[str, int]:
    """Returns the version of each domain that the model uses."""
    # The two names of ONNX's own domain.
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}


def newest_opset() -> int:
    """Returns the newest version of ONNX's own ops that the installed package knows."""
    return int(package("onnx.defs").onnx_opset_version())


def dtype_of(elem_type: int | str) -> DType:
    """Returns the dtype of an ONNX element type (once its name); OnnxError when no tensor has it."""
    kinds = package().TensorProto.DataType
    name = elem_type if isinstance(elem_type, str) else str(elem_type)
    # A name was taken by some old models.
    if elem_type in kinds.values():
        name = kinds.Name(elem_type)
    try:
        return as_dtype(_NAMES.get(name, name.lower()))
    except TypeError:
        message = f"no tensor has the ONNX dtype {name}"
        text = "make numbers of text before the model, and export it without the ops that do"
        raise OnnxError(message, hint=text if name == "STRING" else None) from None


_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}


def spec_of(value_info: Any) -> Spec:
    """Returns the spec of a model's input; sizes that the model names or leaves out are None."""
    kind = value_info.type.WhichOneof("value")
    if kind != "tensor_type":
        message = f"a value of the ONNX type {kind} is no tensor"
        raise OnnxError(message)
    tensor = value_info.type.tensor_type
    dtype = dtype_of(tensor.elem_type)
    if not tensor.HasField("shape"):
        return Spec(None, dtype)
    return Spec(tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim), dtype)


def array_of(tensor: Any) -> Array:
    """Returns the array of a TensorProto; raises OnnxError when no tensor has its dtype."""
    dtype = dtype_of(tensor.data_type)
    # A tensor in an attribute may lie elsewhere, too.
    if _is_elsewhere(tensor):
        message = "its data lies in another file"
        raise OnnxError(message, hint="load the model by its path")
    try:
        return package("onnx.numpy_helper").to_array(tensor).astype(dtype, copy=False)
    except (ValueError, TypeError) as error:
        message = f"its data is broken: {_first_line(error)}"
        raise OnnxError(message) from error


def _is_elsewhere(tensor: Any) -> bool:
    return bool(tensor.data_location == package().TensorProto.EXTERNAL)


def attribute_of(attribute: Any) -> Any:
    """Returns the value of an attribute: number, text, array, dtype code, or tuple of those."""
    onnx = package()
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        # Texts are bytes in ONNX.
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return array_of(value)
    # Of protobuf's own container.
    if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return tuple(value)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return tuple(v.decode("utf-8", "replace") for v in value)
    return value
