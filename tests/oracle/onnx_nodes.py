"""ONNX's own node tests against the importer: `python -m tests.oracle.onnx_nodes`.

Each case of the backend suite is a model of one op (or, when its name says `_expanded`, of the ops
that define it), inputs, and the outputs that must come out. Every case that is not passed must be
named below with a reason, and every reason must still be true: one that passes is an error as well.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

import actorflow as af
from actorflow.errors import ActorflowError, OnnxError
from actorflow.interop import onnx

LEAST = 1172
"""How many cases must pass, those with `_expanded` in their names not counted."""

_NARROW = "floats of 8 bits and fewer, integers of 4 and 2 bits are no dtypes"

EXCLUDED: dict[str, str] = {
    r".*(FLOAT8|FLOAT4|INT4|INT2).*": _NARROW,
    r"(de)?quantizelinear_(e4m3fn|e5m2|float4e2m1|u?int[24]).*": _NARROW,
    r"equal_string.*|string_.*|strnormalizer_.*|regex_.*": "texts are no tensors yet",
    r"ai_onnx_ml_.*": "the domain ai.onnx.ml: trees and tables of other kinds of models",
    r"(adam|adagrad|momentum|nesterov).*": "the domain ai.onnx.preview.training: here a model is trained by af.minimize",
    r"(sequence_|split_to_sequence|identity_sequence|loop13_seq|if_seq).*": "sequences of tensors are no tensors",
    r"(optional_|identity_opt|loop16_seq_none|if_opt).*": "optional values are no tensors",
    r"scan_sum": "Scan of opset 8, which had a batch and lengths of sequences",
    r"bernoulli.*|training_dropout(_default)?(_mask)?": "the draws of numpy's own generator are expected",
    r"bitcast_.*": "no op reads the bits of a number as those of another",
    r"image_decoder_.*": "no op decodes images",
    r"nonmaxsuppression_.*": "one box after the other, in a loop as long as there are boxes",
    r"tfidfvectorizer_.*": "no op counts n-grams",
    r"attention_.*bf16(_expanded)?|attention_4d_causal_fp16_expanded": "16-bit numbers: rounded after every op where they were computed, less often and nearer here",
    r"dft_inverse(_opset19)?": "imaginary parts are expected to be the rounding errors of numpy's transform in float32",
}  # fmt: skip
"""Why cases need not pass, by what their names without `test_` match as a whole."""


@dataclass(frozen=True)
class Outcome:
    """How a case went: what was wrong, "" when nothing was; and the inputs that had to be fixed."""

    name: str
    wrong: str = ""
    fixed: tuple[str, ...] = ()

    @property
    def expanded(self) -> bool:
        return "_expanded" in self.name


def cases() -> list[Any]:
    """All node tests that the installed package can build."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, as the suite computes what it expects
        return list(load_model_tests(kind="node"))


async def outcome(case: Any) -> Outcome:
    """Imports and runs one case."""
    fixed: tuple[str, ...] = ()
    if not case.data_sets:
        return Outcome(case.name, "it has no inputs and outputs to compare")
    try:
        for given, expected in case.data_sets:
            names = (i.name for i in case.model.graph.input)
            feeds = dict(zip(names, map(as_value, given), strict=False))
            model, fixed = imported(case.model, feeds)
            wrong = await differences(model, feeds, expected, case.rtol, case.atol)
            if wrong:
                return Outcome(case.name, wrong, fixed)
    except ActorflowError as error:
        return Outcome(case.name, str(error), fixed)
    return Outcome(case.name, "", fixed)


def as_value(given: Any) -> Any:
    """An input or output as an array; the suite leaves some as messages."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(given) if isinstance(given, TensorProto) else given


def imported(model: Any, feeds: dict[str, Any]) -> tuple[onnx.Imported, tuple[str, ...]]:
    """The model, and the inputs whose values it had to be given when it was loaded."""
    try:
        return onnx.load(model), ()
    except OnnxError:
        needed = onnx.inputs_to_fix(model)
        if not needed:
            raise
    return onnx.load(model, fixed={name: feeds[name] for name in needed}), needed


async def differences(
    model: onnx.Imported, feeds: dict[str, Any], expected: Iterable[Any], rtol: float, atol: float
) -> str:
    """What is wrong with the outputs, "" when nothing is; as the suite judges them."""
    async with af.Session(model.graph, threads=0) as session:
        outputs = await session.run(
            list(model.outputs.values()), {name: feeds[name] for name in model.inputs}
        )
    for name, got, wanted in zip(model.outputs, outputs, expected, strict=True):
        got, wanted = np.asarray(got), np.asarray(as_value(wanted))
        if got.dtype != wanted.dtype or got.shape != wanted.shape:
            return f"{name}: got {got.shape} {got.dtype}, expected {wanted.shape} {wanted.dtype}"
        if not close(got, wanted, rtol, atol):
            return f"{name}: got\n{got}\nexpected\n{wanted}"
    return ""


def close(got: Any, wanted: Any, rtol: float, atol: float) -> bool:
    """Tells whether two arrays are as near as the suite asks, NaN equal to NaN."""
    if got.dtype.kind in "biu":
        return bool(np.allclose(got, wanted, rtol=rtol, atol=atol))
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    return bool(np.allclose(got.astype(wide), wanted.astype(wide), rtol=rtol, atol=atol, equal_nan=True))


async def run(chosen: list[Any]) -> list[Outcome]:
    return [await outcome(case) for case in chosen]


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, name.removeprefix("test_")) is not None


def reason(name: str) -> str | None:
    """Why a case is excluded, None when it is not."""
    return next((why for pattern, why in EXCLUDED.items() if _matches(pattern, name)), None)


def report(outcomes: list[Outcome], *, whole: bool) -> int:
    """Prints how the cases went and returns the exit status."""
    failed = [o for o in outcomes if o.wrong and reason(o.name) is None]
    stale = [o for o in outcomes if not o.wrong and reason(o.name) is not None]
    excluded = Counter(reason(o.name) for o in outcomes if o.wrong and reason(o.name) is not None)
    for o in failed:
        print(f"FAILED {o.name}\n  " + o.wrong.replace("\n", "\n  "))
    for o in stale:
        print(f"PASSED although it is excluded: {o.name} ({reason(o.name)})")
    for why, count in excluded.most_common():
        print(f"{count:5} excluded: {why}")
    enough = True
    for kind, some in (
        ("base", [o for o in outcomes if not o.expanded]),
        ("expanded", [o for o in outcomes if o.expanded]),
    ):
        passed = sum(not o.wrong for o in some)
        bad = sum(o in failed for o in some)
        fixed = sum(bool(o.fixed) and not o.wrong for o in some)
        print(
            f"{kind}: {passed} passed ({fixed} with inputs fixed at load time), "
            f"{len(some) - passed - bad} excluded, {bad} failed, {len(some)} in all"
        )
        if kind == "base":
            enough = passed >= LEAST or not whole
    unused = [p for p in EXCLUDED if whole and not any(_matches(p, o.name) for o in outcomes)]
    for pattern in unused:
        print(f"no case has a name as {pattern!r}, which is excluded")
    if not enough:
        print(f"fewer than {LEAST} base cases passed")
    return 1 if failed or stale or unused or not enough else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="only cases whose name has this in it")
    parser.add_argument("--brief", action="store_true", help="one line a failure")
    options = parser.parse_args()
    chosen = [case for case in cases() if re.search(options.k, case.name)]
    outcomes = asyncio.run(run(chosen))
    if options.brief:
        outcomes = [Outcome(o.name, " | ".join(o.wrong.split("\n"))[:230], o.fixed) for o in outcomes]
    return report(outcomes, whole=not options.k)


if __name__ == "__main__":
    sys.exit(main())
