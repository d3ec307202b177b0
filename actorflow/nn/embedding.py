"""The embedding layer: a row of a table for each number."""

from __future__ import annotations

from typing import Any

from actorflow.graph.builder import Tensor, as_tensor
from actorflow.nn import init
from actorflow.nn.layer import Layer
from actorflow.ops.nn.embedding import embedding_lookup


class Embedding(Layer):
    """The rows of a table that integers number; `af.nn.embedding_lookup` takes shards of one.

    Args:
        count: How many rows there are.
        depth: Size of a row.
        weights: First values of `table`, (count, depth).
        padding_id: The number whose rows are zeros and are not trained.
        dtype: Of the table.
        name: Of the layer; by default `embedding`, `embedding_1`, …

    Shapes:   (…) integers -> (…, depth)
    Raises:   SpecError for another x; in the step an error for a number that is no row.

    >>> with af.Graph():
    ...     words = af.nn.Embedding(1000, 16, name="words")
    ...     words(af.placeholder("int32", (None, 20), name="ids"))
    <Tensor words/embedding_lookup:0 (None, 20, 16) float32>
    """

    def __init__(
        self,
        count: int,
        depth: int,
        *,
        weights: init.Maker | None = None,
        padding_id: int | None = None,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__("embedding", name)
        self.check_positive(count=count, depth=depth)
        self.check_integers(padding_id=padding_id)
        if padding_id is not None and not -(2**63) <= padding_id < 2**63:
            what = f"needs a padding_id of at most 64 bits, got {padding_id}"
            raise self.refusal(what)
        self.count, self.depth, self.padding_id = count, depth, padding_id
        self.dtype = self.floating(dtype)
        make = init.normal() if weights is None else weights
        self.table = self.add_variable("table", make, (count, depth), self.dtype, "weights")

    def __call__(self, ids: Any) -> Tensor:
        """Builds the lookup; see the class."""
        ids = as_tensor(ids)
        if ids.dtype.kind not in "iu":
            what = f"takes integers, the numbers of its rows, got {ids.spec}"
            bytes_too = "make numbers of bytes first, with af.strings.to_number or af.strings.hash_bucket"
            raise self.refusal(what, bytes_too if ids.dtype.kind == "O" else "convert them with af.cast")
        with self.scope():
            return embedding_lookup(self.table, ids, padding_id=self.padding_id)
