"""ONNX's ops that move no number: reshape, transpose, squeeze, expand, and what asks for sizes."""

from __future__ import annotations

from collections.abc import Sequence

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.extents import extents, prod, quotient, reshape
from actorflow.values.spec import broadcast


def move_axes(x: Tensor, perm: Sequence[int]) -> Tensor:
    """`x` with its axes in the order `perm`; a transposition that made `x` is joined with it."""
    # Two moves in a row are one: layouts of neighbours cancel.
    node = x.node
    if node.op == "transpose" and node.attrs.get("perm"):
        before = node.attrs["perm"]
        x, perm = Tensor(x.graph, node.inputs[0]), [before[axis] for axis in perm]
    return x if list(perm) == list(range(len(perm))) else ops.transpose(x, perm)


def channels_last(x: Tensor) -> Tensor:
    """(n, c, d0, …) as (n, d0, …, c)."""
    rank = len(x.shape or ())
    return move_axes(x, (0, *range(2, rank), 1))


def channels_first(x: Tensor) -> Tensor:
    """(n, d0, …, c) as (n, c, d0, …)."""
    rank = len(x.shape or ())
    return move_axes(x, (0, rank - 1, *range(1, rank - 1)))


@builder("", "Transpose")
def _transpose(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    perm = node.attr("perm", tuple(reversed(range(len(node.shape(0))))))
    made = move_axes(inputs[0], perm)
    return ops.identity(made) if made is inputs[0] else made


@builder("", "Reshape")
def _reshape(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    keeps_zeros = node.attr("allowzero", 0)
    shape = node.attr("shape") if opset < 5 else node.known(1)
    # Shape and, unless allowzero, its zeros are known in the step.
    if shape is None:
        y = ops.reshape(x, inputs[1] if keeps_zeros else _without_zeros(node, x, inputs[1]))
        parts = node.sizes_in(1)
        # -1 and 0 stand for sizes that the step knows.
        return y if parts is None else ops.ensure_shape(y, [s if s is None or s > 0 else None for s in parts])
    sizes: list[int | None] = [int(size) for size in shape]
    if not keeps_zeros and 0 in sizes:
        # A zero takes the size of the input there.
        sizes = [node.shape(0)[i] if size == 0 else size for i, size in enumerate(sizes)]
        # One unknown: what is left.
        if sizes.count(None) == 1 and -1 not in sizes:
            sizes[sizes.index(None)] = -1
        # Several: only the step can say.
        elif None in sizes:
            y = ops.reshape(x, _without_zeros(node, x, inputs[1]))
            return ops.ensure_shape(y, [s if s != -1 else None for s in sizes])
    if -1 in sizes and 0 in (x.shape or ()):  # what is left of nothing
        sizes[sizes.index(-1)] = 0
    return ops.reshape(x, [size for size in sizes if size is not None])


def _without_zeros(node: OnnxNode, x: Tensor, shape: Tensor) -> Tensor:
    """A shape, known in the step, with the sizes of `x` in place of zeros."""
    (rank,) = node.sizes(1)
    # A shape longer than the rank has no size to take there.
    own = ops.cast(ops.shape(x), "int64")[: min(rank, len(node.shape(0)))]
    own = ops.pad(own, ((0, rank - (own.shape or (0,))[0]),))
    return ops.where(ops.equal(shape, 0), own, shape)


@builder("", "Flatten")
def _flatten(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    rank, axis = len(node.shape(0)), node.attr("axis", 1)
    return as_matrix(inputs[0], axis + rank if axis < 0 else axis)


def as_matrix(x: Tensor, axis: int) -> Tensor:
    """`x` as rows of the axes before `axis`, and columns of the rest."""
    sizes = extents(x)
    rows, columns = prod(sizes[:axis]), prod(sizes[axis:])
    # Columns that are open are what is left.
    return reshape(x, (rows, columns if isinstance(columns, int) else -1))


@builder("", "Squeeze")
def _squeeze(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    axes = node.integers(1) if opset >= 13 else node.attr("axes")
    if axes is None:
        # Without axes all of size 1, which must be known to be so.
        axes = tuple(i for i, size in enumerate(node.sizes(0)) if size == 1)
    return ops.squeeze(inputs[0], tuple(axes))


@builder("", "Unsqueeze")
def _unsqueeze(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    axes = node.integers(1) if opset >= 13 else node.attr("axes")
    return ops.expand_dims(inputs[0], tuple(axes or ()))


@builder("", "Shape")
def _shape(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    start, end = node.attr("start", 0), node.attr("end")
    sizes = ops.cast(ops.shape(x), "int64")
    return sizes if (start, end) == (0, None) else ops.slice(sizes, slice(start, end))


@builder("", "Size")
def _size(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.cast(ops.size(inputs[0]), "int64")


@builder("", "Expand")
def _expand(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, shape = inputs
    known = node.known(1)
    # All known: the result has a known shape.
    if known is not None and x.shape is not None and None not in x.shape:
        wanted = broadcast([x.shape, tuple(int(size) for size in known)])
        return ops.broadcast_to(x, wanted)  # type: ignore[arg-type]  # all sizes are known
    mine, theirs = len(node.shape(0)), node.sizes(1)[0]
    rank = max(mine, theirs)
    # Missing axes count as 1 on both sides.
    own = ops.pad(ops.cast(ops.shape(x), "int64"), ((rank - mine, 0),), value=1)
    wanted_sizes = ops.pad(ops.cast(shape, "int64"), ((rank - theirs, 0),), value=1)
    # A wanted 1 keeps the size that there is.
    y = ops.broadcast_to(x, ops.where(ops.equal(wanted_sizes, 1), own, wanted_sizes))
    parts = (1,) * (rank - theirs) + (node.sizes_in(1) or (None,) * theirs)
    sizes = zip(parts, (1,) * (rank - mine) + node.shape(0), strict=True)
    return ops.ensure_shape(
        y, [old if new == 1 else new or (old if old != 1 else None) for new, old in sizes]
    )


@builder("", "DepthToSpace")
def _depth_to_space(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    block, mode = node.attr("blocksize"), node.one_of("mode", "DCR", "CRD")
    # ONNX's default order is that of af.nn.depth_to_space.
    if mode == "DCR":
        return channels_first(ops.depth_to_space(channels_last(x), block))
    node.shape(0)
    n, c, h, w = extents(x)
    few = quotient(c, block**2)
    # CRD: channels first, then the place in the block.
    blocks = reshape(x, (n, few, block, block, h, w))
    return reshape(ops.transpose(blocks, (0, 1, 4, 2, 5, 3)), (n, few, prod([h, block]), prod([w, block])))


@builder("", "SpaceToDepth")
def _space_to_depth(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    block, mode = node.attr("blocksize"), node.one_of("mode", "DCR", "CRD")
    if mode == "DCR":
        return channels_first(ops.space_to_depth(channels_last(x), block))
    node.shape(0)
    n, c, h, w = extents(x)
    low, thin = quotient(h, block), quotient(w, block)
    blocks = reshape(x, (n, c, low, block, thin, block))
    return reshape(ops.transpose(blocks, (0, 1, 3, 5, 2, 4)), (n, prod([c, block**2]), low, thin))
