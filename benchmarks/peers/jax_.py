"""jax: `lax.while_loop`, compiled once, on one thread."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from benchmarks.loops import Run, matrices

os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)
os.environ["PJRT_NPROC"] = os.environ["NPROC"] = "1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

jax: Any = import_module("jax")  # after the variables, which it reads when it starts
jnp: Any = import_module("jax.numpy")


def open_loops() -> dict[str, Run]:
    """Gives one loop of each body. The caller blocks, so the event loop waits with it."""
    x, w = (jnp.asarray(a) for a in matrices())
    lax = jax.lax
    scalar = jax.jit(
        lambda n: lax.while_loop(
            lambda at: at[0] < n, lambda at: (at[0] + 1, at[1] * 0.5 + 1.0), (0, jnp.float32(1))
        )[1]
    )
    matrix = jax.jit(
        lambda n, x, w: lax.while_loop(
            lambda at: at[0] < n, lambda at: (at[0] + 1, jnp.tanh(at[1] @ w + x)), (0, x)
        )[1]
    )

    async def run_scalar(n: int) -> Any:
        return jax.device_get(scalar(n))

    async def run_matrix(n: int) -> Any:
        return jax.device_get(matrix(n, x, w))

    return {"scalar": run_scalar, "512x512": run_matrix}
