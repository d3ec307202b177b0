"""Renews what is recorded: asks torch all cases, and keeps its answers.

python -m tests.oracle.record
"""

from __future__ import annotations

import sys
import warnings
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.oracle.cases import cases
from tests.oracle.recording import KEPT, Answer, Call, written
from tests.oracle.table import table
from tests.oracle.torch_ops import array_of, key_of, leaves_of, weights_of


def settled(name: str, how: str, made: Any) -> Any:
    """The outputs made unique in the way that torch's table has under that name."""
    if how == "fn_UVh":
        u, values, v = made
        return u @ (v.mH if name == "svd" else v), values
    if how == "out_fn":
        return made[0], abs(made[1])
    assert not how, f"no way {how} to make outputs unique"
    return made


def answer(name: str, info: Any, call: Call) -> Answer:
    """What torch makes of a call."""
    leaves: list[torch.Tensor] = []  # the floating inputs

    def given(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            tensor = torch.from_numpy(value.copy())
            if value.dtype == np.float64:
                tensor.requires_grad_(info.supports_autograd and len(leaves) not in call.still)
                leaves.append(tensor)
            return tensor
        if isinstance(value, list | tuple):
            return type(value)(given(v) for v in value)
        return value

    args = given(call.args)
    kwargs = {k: getattr(torch, v) if k == "dtype" else given(v) for k, v in call.kwargs.items()}
    made = info.gradcheck_wrapper(info, *args, **kwargs)
    outputs = leaves_of(settled(name, call.settled, made))[: table()[name].first]
    moving = [isinstance(o, torch.Tensor) and o.requires_grad for o in outputs]
    told = Answer(name, call, [array_of(o) for o in outputs])
    if not any(moving) or table()[name].forward_only:
        return told
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    weights = [weights_of(rng, tuple(o.shape)) if m else None for o, m in zip(outputs, moving, strict=True)]
    grads = torch.autograd.grad(
        [o for o, m in zip(outputs, moving, strict=True) if m],
        [leaf for leaf in leaves if leaf.requires_grad],
        [torch.as_tensor(w).to(o.dtype) for w, o in zip(weights, outputs, strict=True) if w is not None],
        allow_unused=True,
    )
    in_order = iter(grads)
    kept = [of_leaf(leaf, next(in_order)) if leaf.requires_grad else None for leaf in leaves]
    return replace(told, weights=weights, gradients=kept)


def of_leaf(leaf: torch.Tensor, grad: torch.Tensor | None) -> np.ndarray:
    """The gradient for a leaf, zeros where it has no part in the outputs."""
    return array_of(torch.zeros_like(leaf) if grad is None else grad)


def main() -> int:
    """Writes the answers, and returns the exit status."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    infos = {key_of(info): info for info in op_db}
    drawn = cases()
    if missing := sorted(table().keys() - drawn.keys()):
        print(f"no cases for {missing}")
        return 1
    answers: list[Answer] = []
    for name in sorted(drawn):
        try:
            answers.extend(answer(name, infos[name], call) for call in drawn[name])
        except Exception as error:
            error.add_note(f"in the cases of {name}")
            raise
    text = written(answers)
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(text)
    print(f"{len(answers)} cases of {len(drawn)} ops, {len(text.encode()) / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
