"""The language model of `examples/austen_lm.py` in PyTorch: the same words in order, the same first weights.

    python -m studies.austen_torch [--epochs N] [--seed N] [--quick]

It needs torch: `pip install 'actorflow[oracle]'`. Prints the perplexity on the held-out chapters after every
epoch, as the example does.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import actorflow as af

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import austen_lm as example
from novels import novels


class Model:
    """The same equations. PyTorch's LSTM has two biases, whose sum is ours: the second one stays zero."""

    def __init__(self, table: Any, w: Any, u: Any, b: Any, bias: Any) -> None:
        units = len(u)
        self.table = nn.Parameter(torch.tensor(table))
        self.bias = nn.Parameter(torch.tensor(bias))
        self.lstm = nn.LSTM(units, units, batch_first=True)
        values = {"weight_ih_l0": w.T, "weight_hh_l0": u.T, "bias_ih_l0": b, "bias_hh_l0": 0 * b}
        with torch.no_grad():
            for name, value in values.items():
                getattr(self.lstm, name).copy_(torch.tensor(value))
        self.lstm.bias_hh_l0.requires_grad_(False)
        self.trained = [self.table, self.bias, *(p for p in self.lstm.parameters() if p.requires_grad)]

    def __call__(self, numbers: Any, state: Any) -> tuple[Any, Any]:
        """(rows, steps) numbers of words, state -> (rows · steps, words), the state after them."""
        outputs, state = self.lstm(nn.functional.embedding(numbers, self.table), state)
        return outputs.reshape(-1, outputs.shape[-1]) @ self.table.T + self.bias, state


async def first_weights(seed: int, quick: bool) -> list[Any]:
    """Returns the weights with which the example begins."""
    program, model = example.program(seed, quick=quick)
    async with af.Session(program.graph) as session:
        values: list[Any] = await session.run(model.variables)
    return values


def train(seed: int, epochs: int, quick: bool) -> float:
    """Trains, prints a line for each epoch, and returns the last perplexity on what was held out."""
    _, read, held_out = novels(quick)
    model = Model(*af.run(first_weights(seed, quick)))
    optimizer = torch.optim.Adam(model.trained)
    rate = example.rate(epochs * math.ceil(read.shape[1] / example.STEPS))
    updates, perplexity = 0, math.inf
    for epoch in range(1, epochs + 1):
        for loss in losses(model, read):
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.trained, example.LIMIT)
            for group in optimizer.param_groups:
                group["lr"] = rate(updates)
            optimizer.step()
            updates += 1
            if updates % 50 == 0:
                print(f"step {updates}: loss {loss.item():.3f}", flush=True)
        with torch.no_grad():
            found = [loss.item() for loss in losses(model, held_out)]
        perplexity = math.exp(np.mean(found))
        print(f"epoch {epoch}: perplexity {perplexity:.2f} on what was held out", flush=True)
    return perplexity


def losses(model: Model, rows: Any) -> Any:
    """Yields the loss of each step through rows of words; the state goes on, the gradient does not."""
    numbers = torch.tensor(rows.astype("int64"))
    state = None
    for at in range(0, numbers.shape[1] - 1, example.STEPS):
        part = numbers[:, at : at + example.STEPS + 1]
        logits, state = model(part[:, :-1], state)
        state = tuple(value.detach() for value in state)
        yield nn.functional.cross_entropy(logits, part[:, 1:].reshape(-1))


if __name__ == "__main__":
    chosen = example.arguments(__doc__).parse_args()
    train(chosen.seed, chosen.epochs, chosen.quick)
