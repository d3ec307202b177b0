"""What CuPy computes against what numpy does: kernels, gradients, and how near they must come.

How near, and why:
* integers, bools: equal.
* float64, complex128: 1e-12; a card's exp, log, pow and tanh are within two units in the last place,
  and sums run in another order.
* float32, complex64: 2e-5, for the same two reasons; CuPy's products are in full float32, not TF32.
* float16: 4e-3, four units in the last place: numpy rounds a half after every addition, a card sums
  halves in float32.
* bfloat16: 4e-2, five units in the last place, for the same reason.
All are relative to the largest element of the result, or to 1 when that is smaller, since a small
element may be what is left of large ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from actorflow.errors import SpecError
from actorflow.graph import opdef
from actorflow.graph.autodiff import gradients
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.graph.opdef import Effect
from actorflow.kernels.definition import registry
from actorflow.values.arrays import as_dtype, library
from actorflow.values.spec import Spec
from tests.gpu.factors import tensors_without_signs, without_signs
from tests.ops.samples import SAMPLES, Case
from tests.ops.test_conformance import (
    COMPUTED,
    network,
    of_bytes,
    quiet,
    weighted,
)
from tests.ops.test_conformance import (
    DIFFERENTIABLE as DIFFERENTIABLE,
)
from tests.ops.test_conformance import (
    converted as converted,
)
from tests.support.reference import evaluate, needed

OPS = [op for op in COMPUTED if op in SAMPLES and not of_bytes(op)]
TOLERANCE = {
    "float64": 1e-12, "complex128": 1e-12, "float32": 2e-5, "complex64": 2e-5, "float16": 4e-3, "bfloat16": 4e-2,
}  # fmt: skip
COUNTER = {"counter": (1, 2, 3, 4)}


def takes(op: str, case: Case) -> bool:
    """Whether the op's spec rule takes these inputs."""
    try:
        opdef.lookup(op).spec([Spec(a.shape, a.dtype) for a in case.inputs], case.attrs)
    except SpecError:
        return False
    return True


def strided(array: Any, xp: Any) -> Any:
    """The same values on the card, each second element of a larger array; its axes in reverse order."""
    if not array.ndim:
        return xp.asarray(array)
    wide = np.repeat(np.asarray(array).T, 2, axis=-1)
    return xp.asarray(wide)[..., ::2].T


def compare(op: str, case: Case) -> None:
    """Asserts that CuPy's kernel makes what numpy's does, of arrays in C order and of strided ones."""
    cp = library("cupy")
    extra = COUNTER if opdef.lookup(op).effect is Effect.RANDOM else {}
    with quiet():
        told = registry.find(op).function(*case.inputs, **case.attrs, **extra)
    for layout, place in (("C order", lambda a, xp: xp.asarray(a)), ("strided", strided)):
        on_card = [place(a, cp) for a in case.inputs]
        before = [a.copy() for a in on_card]
        where = f"{op} of {layout} {[_shown(a) for a in case.inputs]}, {dict(case.attrs)}"
        with quiet(), telling(where):
            made = registry.find(op, "cupy").function(*on_card, **case.attrs, **extra)
        agree(made, told, where, op)
        for a, b in zip(on_card, before, strict=True):
            same = np.array_equal(a.get().view(np.uint8), b.get().view(np.uint8)) if a.ndim else True
            assert same, f"{where}: the kernel changed its input"


@contextmanager
def telling(where: str) -> Iterator[None]:
    """Puts what was compared into one line with what CuPy raised, to be mended without the card."""
    try:
        yield
    except Exception as error:
        message = f"{where}: {type(error).__name__}: {str(error)[:600]}"
        raise AssertionError(message) from error


def agree(made: Any, told: Any, where: str, op: str = "") -> None:
    """Asserts that arrays of the card are those of numpy, within the tolerance of their dtype.

    Of the factors of a matrix, what does not depend on their signs.
    """
    made, told = (m if isinstance(m, tuple) else (m,) for m in (made, told))
    assert len(made) == len(told), f"{where}: {len(made)} outputs, numpy makes {len(told)}"
    for m, t in zip(made, told, strict=True):
        assert isinstance(m, library("cupy").ndarray), f"{where}: made {type(m)}, not an array of the card"
        assert (m.shape, m.dtype) == (t.shape, t.dtype), (
            f"{where}: made {m.shape} {m.dtype}, numpy {t.shape} {t.dtype}"
        )
    on_host = without_signs(op, [m.get() for m in made])
    for m, t in zip(on_host, without_signs(op, [np.asarray(t) for t in told]), strict=True):
        near(m, t, where)


def near(made: np.ndarray, told: np.ndarray, where: str, *, times: float = 1.0) -> None:
    """Asserts that two arrays of numpy of one dtype are equal within `times` its tolerance."""
    tolerance = times * TOLERANCE.get(told.dtype.name, 0.0)
    wide = "complex128" if told.dtype.kind == "c" else "float64" if tolerance else told.dtype
    m, t = made.astype(wide), told.astype(wide)
    finite = np.isfinite(t) if tolerance else np.zeros(t.shape, bool)
    scale = max(1.0, float(np.abs(t[finite]).max(initial=0.0)))  # of nothing when all must be equal
    with np.errstate(all="ignore"):
        good = np.asarray((m == t) | ((m != m) & (t != t)))
        if tolerance:
            good |= finite & (np.abs(m - t) <= tolerance * scale)
    if not good.all():
        worst = np.abs(np.where(good, 0, m.astype("complex128") - t.astype("complex128"))).max()
        message = (
            f"{where}: {int((~good).sum())} of {good.size} elements differ, by {worst:.3g} at most "
            f"(tolerance {tolerance * scale:.3g})\n  card:  {_shown(made)}\n  numpy: {_shown(told)}"
        )
        raise AssertionError(message)


def _shown(array: Any) -> str:
    text = np.array2string(np.asarray(array), threshold=24, precision=6).replace("\n", "")
    return f"{np.asarray(array).dtype.name}{np.shape(array)} {text}"


# ------------------------------------------------------------------------------- gradients


def compare_gradient(op: str, case: Case, dtype: str) -> None:
    """Asserts that the graph of an op's gradients makes on the card what it makes with numpy."""
    case = converted(case, dtype)
    if not takes(op, case):
        return
    graph, xs, ys = network(case, op, [Spec(a.shape, a.dtype) for a in case.inputs])
    with graph:
        ys = tensors_without_signs(op, ys)
    with quiet():
        made = evaluate(graph, ys, dict(zip(xs, case.inputs, strict=True)))
    real = [(y, np.shape(m)) for y, m in zip(ys, made, strict=True) if y.dtype == as_dtype(dtype)]
    moved = [x for x in xs if x.dtype == as_dtype(dtype)]
    if not real or not moved:
        return
    with graph:
        loss = _weighted(real, dtype)
        grads = [as_tensor(g) for g in gradients(loss, moved) if g is not None]
    feeds = dict(zip(xs, case.inputs, strict=True))
    where = f"gradient of {op} for {[_shown(a) for a in case.inputs]}, {dict(case.attrs)}"
    with quiet(), telling(where):
        told = evaluate(graph, grads, feeds)
        found = evaluate_on_card(graph, grads, feeds)
    for m, t in zip(found, told, strict=True):
        agree(m, t, where)


def _weighted(real: Sequence[tuple[Tensor, tuple[int, ...]]], dtype: str) -> Tensor:
    import actorflow.ops as ops

    if dtype == "float64":
        return weighted([y for y, _ in real], [s for _, s in real], 1.0)
    total: Any = None
    for y, shape in real:
        weights = np.cos(np.arange(1, np.prod(shape, dtype=int) + 1)).reshape(shape).astype(as_dtype(dtype))
        part = ops.sum(y * weights)
        total = part if total is None else total + part
    found: Tensor = total
    return found


def evaluate_on_card(graph: Graph, fetches: Sequence[Tensor], feeds: Mapping[Tensor, Any]) -> list[Any]:
    """What `tests.support.reference.evaluate` does, by the kernels of CuPy."""
    cp = library("cupy")
    values: dict[Port, Any] = {t.port: cp.asarray(np.asarray(v, t.dtype)) for t, v in feeds.items()}
    for node_id in needed(graph, [t.port for t in fetches], values):
        node = graph.nodes[node_id]
        effect = opdef.lookup(node.op).effect
        if effect is Effect.CONSTANT:
            made: Any = cp.asarray(graph.constants[node.attrs["constant"]])
        else:
            extra = {"counter": (0, 0, 0, node.id)} if effect is Effect.RANDOM else {}
            inputs = [values[p] for p in node.inputs]
            made = registry.find(node.op, "cupy").function(*inputs, **node.attrs, **extra)
        for i, value in enumerate(made if isinstance(made, tuple) else (made,)):
            values.setdefault(Port(node.id, i), value)
    return [values[t.port] for t in fetches]


def host(op: str, case: Case) -> Any:
    """What numpy's kernel makes of a case, its one output."""
    with quiet():
        return np.asarray(registry.find(op).function(*case.inputs, **case.attrs))


def on_card(op: str, case: Case) -> np.ndarray:
    """What CuPy's kernel makes of a case, its one output, brought back."""
    cp = library("cupy")
    with telling(f"{op} {[a.dtype.name for a in case.inputs]} {dict(case.attrs)}"):
        made = registry.find(op, "cupy").function(*map(cp.asarray, case.inputs), **case.attrs)
    found: np.ndarray = made.get()
    return found
