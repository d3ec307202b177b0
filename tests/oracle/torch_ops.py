"""Ours against torch's, on torch's own samples: `make oracle-torch`.

torch's table of ops (`op_db`) has samples for each, the hard ones among them. Every sample of an op
that `maps_*` knows is computed by both in float64 (in int64, if it takes no floats), forward and
backward: the outputs, the gradient of the sum of all outputs times fixed weights for every input that
has one and, where torch's table says that it has a second derivative, the gradient of that gradient.
A sample that ours has no meaning for is excluded with a reason. `difference` has the rule of equality.

    python -m tests.oracle.torch_ops              all, a line an op
    python -m tests.oracle.torch_ops sum "div*"   those whose names fit
    python -m tests.oracle.torch_ops --missing    torch's ops that no entry serves
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
import zlib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

from actorflow.values.arrays import as_dtype
from tests.oracle.computing import Computation, difference, silent
from tests.oracle.table import Entry, Excluded, table
from tests.oracle.tallies import Tally, report

LEAST_OPS = 470
LEAST_SAMPLES = 9100


def key_of(info: Any) -> str:
    """The name of an op of torch's table with its variant."""
    return f"{info.name} {info.variant_test_name}".strip()


def samples_of(info: Any) -> Iterator[Any]:
    """torch's samples of an op, the same in every run."""
    torch.manual_seed(0)
    np.random.seed(0)
    floats = torch.float64 in info.dtypes
    yield from info.sample_inputs(
        "cpu", torch.float64 if floats else torch.int64, requires_grad=floats and info.supports_autograd
    )


def array_of(value: Any) -> np.ndarray:
    """A tensor, or number, of torch as an array of its own."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj().resolve_neg()
        if plain.dtype == torch.bfloat16:  # numpy has none of its own
            return np.array(plain.float().numpy()).astype(as_dtype("bfloat16"))
        return np.array(plain.numpy(force=True))
    return np.asarray(value)


class Sample:
    """One sample of torch's, with leaves of its own for both sides."""

    def __init__(self, sample: Any) -> None:
        self.ours = Computation()
        self.leaves: list[tuple[Any, Any]] = []  # torch's and ours, of what has a gradient
        self.theirs = tree_map(self._leaf, (sample.input, tuple(sample.args), dict(sample.kwargs)))
        self.mine = tree_map(self._twin, self.theirs)

    def _leaf(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    def _twin(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.layout != torch.strided:
                raise Excluded(f"{value.layout}: ours are dense")
            twin = self.ours.feed(array_of(value))
            if value.requires_grad:
                self.leaves.append((value, twin))
            return twin
        if isinstance(value, torch.dtype):
            return str(value).removeprefix("torch.")
        if isinstance(value, torch.Size):
            return tuple(value)
        return value


def settled_by(raw: Any) -> str:
    """The name of the function by which torch's table makes an output unique."""
    return getattr(raw.output_process_fn_grad, "__name__", "")


def leaves_of(made: Any) -> list[Any]:
    """The outputs of torch's op, one after the other."""
    return list(made) if isinstance(made, list | tuple) else [made]


def compare(info: Any, entry: Entry, raw: Any, tally: Tally) -> str | None:
    """Returns how ours differs from torch's on a sample; None when it does not."""
    sample = Sample(raw)
    first, args, kwargs = sample.mine
    ys = sample.ours.built(entry, (first, *args), dict(kwargs), settled_by(raw))
    first, args, kwargs = sample.theirs
    with silent():
        told = leaves_of(raw.output_process_fn_grad(info.gradcheck_wrapper(info, first, *args, **kwargs)))
        told = told[: entry.first]
    made = sample.ours.compute(ys)
    if len(told) != len(made):
        return f"torch has {len(told)} outputs, ours {len(made)}"
    for i, (t, m) in enumerate(zip(told, made, strict=True)):
        if found := difference(entry, f"output {i}", array_of(t), m):
            return found
    if entry.forward_only or not info.supports_autograd:
        return None
    return compare_gradients(info, entry, sample, told, ys, tally)


def compare_gradients(
    info: Any, entry: Entry, sample: Sample, told: Sequence[Any], ys: Sequence[Any], tally: Tally
) -> str | None:
    """Returns how the gradients differ; None when they do not."""
    pairs = [(t, y) for t, y in zip(told, ys, strict=True) if getattr(t, "requires_grad", False)]
    if not pairs or not sample.leaves:
        return None
    twice = info.supports_gradgrad and not entry.second_order
    for order in ("gradient", "gradient of the gradient"):
        try:
            theirs, weights = gradients_of(entry, order, sample, pairs, again=twice and order == "gradient")
        except RuntimeError as lacks:
            if order == "gradient":
                raise
            tally.lacking[str(lacks).partition("\n")[0]] += 1
            return None
        grads, found = compare_order(entry, order, sample, pairs, theirs, weights)
        if found:
            return found
        tally.with_gradient += order == "gradient"
        tally.second += order != "gradient"
        pairs = [(g, o) for g, o in grads if o is not None and g is not None and g.requires_grad]
        if not twice or not pairs:
            return None
    return None


def weights_of(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Weights for all elements of an output, such as every floating dtype can hold."""
    return rng.integers(1, 64, shape) / 64 * rng.choice([-1, 1], shape)


def gradients_of(
    entry: Entry, order: str, sample: Sample, pairs: Sequence[tuple[Any, Any]], *, again: bool
) -> tuple[Sequence[Any], list[np.ndarray]]:
    """torch's gradients of what is in `pairs`, times weights, for every leaf, and the weights."""
    rng = np.random.default_rng(zlib.crc32(f"{entry.name}{order}".encode()))
    weights = [weights_of(rng, tuple(t.shape)) for t, _ in pairs]
    with silent():
        theirs = torch.autograd.grad(
            [t for t, _ in pairs],
            [leaf for leaf, _ in sample.leaves],
            [torch.as_tensor(w).to(t.dtype) for w, (t, _) in zip(weights, pairs, strict=True)],
            allow_unused=True,
            create_graph=again,
        )
    return theirs, weights


def compare_order(
    entry: Entry,
    order: str,
    sample: Sample,
    pairs: Sequence[tuple[Any, Any]],
    theirs: Sequence[Any],
    weights: Sequence[np.ndarray],
) -> tuple[list[tuple[Any, Any]], str | None]:
    """torch's gradients and ours in pairs, and how they differ."""
    cast = [w.astype(y.dtype) for w, (_, y) in zip(weights, pairs, strict=True)]
    ours = sample.ours.slopes([y for _, y in pairs], [twin for _, twin in sample.leaves], cast)
    made = iter(sample.ours.compute([o for o in ours if o is not None]))
    for i, (leaf, t, o) in enumerate(zip(sample.leaves, theirs, ours, strict=True)):
        zeros = np.zeros(tuple(leaf[0].shape))
        wanted = zeros if t is None else array_of(t)
        if found := difference(entry, f"{order} for input {i}", wanted, zeros if o is None else next(made)):
            return [], found
    return list(zip(theirs, ours, strict=True)), None


def tally_of(info: Any, entry: Entry) -> Tally:
    """Compares all samples of an op."""
    tally = Tally(entry)
    for number, raw in enumerate(samples_of(info)):
        try:
            found = compare(info, entry, raw, tally)
        except Excluded as excluded:
            tally.excluded[str(excluded)] += 1
            continue
        except Exception as error:  # noqa: BLE001 - a fault of ours like a wrong value: told, and counted
            place = traceback.extract_tb(error.__traceback__)[-1]
            found = f"{type(error).__name__}: {error} ({place.filename.rpartition('/')[2]}:{place.lineno})"
        if found is None:
            tally.passed += 1
        else:
            tally.failures.append(f"{entry.name} sample {number} {described(raw)}\n    {found}")
    return tally


def described(raw: Any) -> str:
    """The arguments of a sample, tensors as their shapes."""

    def short(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        return value

    first, args, kwargs = tree_map(short, (raw.input, raw.args, dict(raw.kwargs)))
    return f"{first} {args} {kwargs}"


def main() -> int:
    """Compares, reports, and returns the exit status."""
    parser = argparse.ArgumentParser(description="ours against torch's, on torch's own samples")
    parser.add_argument("names", nargs="*", help="names of torch, as patterns of the shell; all when none")
    parser.add_argument("--missing", action="store_true", help="names torch's ops that no entry serves")
    options = parser.parse_args()
    infos = {key_of(info): info for info in op_db}
    if unknown := sorted(table().keys() - infos.keys()):
        print(f"torch has no op of the names {unknown}")
        return 1
    if options.missing:
        print("\n".join(sorted(infos.keys() - table().keys())))
        return 0
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of ops that torch is about to rename
    chosen = [
        name for name in sorted(table()) if not options.names or any(fnmatch(name, n) for n in options.names)
    ]
    tallies = [tally_of(infos[name], table()[name]) for name in chosen]
    of = f"torch {torch.__version__}, float64, {len(op_db)} ops in its table"
    return report(tallies, of, (0, 0) if options.names else (LEAST_OPS, LEAST_SAMPLES))


if __name__ == "__main__":
    sys.exit(main())
