"""Cases of shapes, joining, cutting, margins, new tensors."""

from __future__ import annotations

from tests.oracle.cases import call, each

each("reshape, view, view_copy", lambda d: call(d.real(2, 3), (3, -1)))
each("reshape_as, view_as", lambda d: call(d.real(2, 3), d.real(3, 2)))
each("flatten", lambda d: call(d.real(1, 2, 3), 1), lambda d: call(d.real(2, 3)))
each("ravel", lambda d: call(d.real(2, 3)))
each("unflatten", lambda d: call(d.real(6), 0, (2, 3)))
each("squeeze, squeeze_copy", lambda d: call(d.real(1, 3, 1)), lambda d: call(d.real(1, 3, 1), 0))
each("squeeze multiple", lambda d: call(d.real(1, 3, 1), (0, 2)))
each("unsqueeze, unsqueeze_copy", lambda d: call(d.real(2, 3), 1), lambda d: call(d.real(3), -1))
each("permute, permute_copy", lambda d: call(d.real(1, 2, 3), (2, 0, 1)))
each("transpose, transpose_copy", lambda d: call(d.real(1, 2, 3), 0, -1))
each("T, t, t_copy, mT, mH, H", lambda d: call(d.real(2, 3)))
each("movedim", lambda d: call(d.real(1, 2, 3), 0, 2), lambda d: call(d.real(1, 2, 3), (0, 1), (1, 2)))
each("expand, expand_copy, broadcast_to", lambda d: call(d.real(3, 1), (2, 3, 2)))
each("expand_as", lambda d: call(d.real(3, 1), d.real(2, 3, 2)))
each("broadcast_tensors", lambda d: call(d.real(3, 1), d.real(2)))
each("sum_to_size", lambda d: call(d.real(2, 3), (1, 3)))
each("flip", lambda d: call(d.real(2, 3), (0,)), lambda d: call(d.real(2, 3), (0, 1)))
each("fliplr, flipud", lambda d: call(d.real(2, 3)))
each("roll", lambda d: call(d.real(2, 3), 1), lambda d: call(d.real(2, 3), (1, -1), (0, 1)))
each("rot90", lambda d: call(d.real(2, 3), 1, (0, 1)), lambda d: call(d.real(2, 3), 3, (0, 1)))
each("repeat, tile", lambda d: call(d.real(2, 2), (2, 1, 2)))
each("repeat_interleave", lambda d: call(d.real(2, 2), 2), lambda d: call(d.real(3), d.whole(3, 3), 0))

# ---------------------------------------------------------------------------- joining and cutting

each("stack", lambda d: call([d.real(2, 2), d.real(2, 2)], 1))
each("cat", lambda d: call([d.real(2, 2), d.real(1, 2)], 0), lambda d: call([d.real(2, 1), d.real(2, 2)], -1))
each("hstack, column_stack", lambda d: call([d.real(2, 1), d.real(2, 2)]))
each("vstack, dstack", lambda d: call([d.real(3), d.real(3)]))
each("atleast_1d, atleast_2d, atleast_3d", lambda d: call(d.real(3)))
each("meshgrid variadic_tensors", lambda d: call(d.real(2), d.real(3), indexing="ij"))
each("meshgrid list_of_tensors", lambda d: call([d.real(2), d.real(3)], indexing="xy"))
each("cartesian_prod", lambda d: call(d.real(2), d.real(3)))
each("unbind, unbind_copy", lambda d: call(d.real(2, 3)), lambda d: call(d.real(2, 3), 1))
each("chunk, unsafe_chunk", lambda d: call(d.real(5), 2), lambda d: call(d.real(2, 3), 2, 1))
each("split, unsafe_split", lambda d: call(d.real(5), 2))
each("split list_args, split_with_sizes, split_with_sizes_copy", lambda d: call(d.real(5), [1, 4]))
each("tensor_split", lambda d: call(d.real(5), 2), lambda d: call(d.real(2, 3), (1, 2), 1))
each("hsplit", lambda d: call(d.real(2, 4), 2))
each("vsplit", lambda d: call(d.real(4, 1), 2))
each("dsplit", lambda d: call(d.real(1, 2, 4), [1, 2]))

# --------------------------------------------------------------------------- diagonals and margins

each("tril, triu", lambda d: call(d.real(3, 3)), lambda d: call(d.real(2, 3), 1))
each("diagonal, diagonal_copy", lambda d: call(d.real(2, 3)), lambda d: call(d.real(2, 2, 2), 1, 0, 2))
each("linalg.diagonal", lambda d: call(d.real(2, 3)), lambda d: call(d.real(2, 3), offset=1))
each("diag_embed", lambda d: call(d.real(2)), lambda d: call(d.real(1, 2), 1))
each("diag", lambda d: call(d.real(2)), lambda d: call(d.real(2, 3), 1))
each("diagflat", lambda d: call(d.real(2, 1), -1))
each("nn.functional.pad constant", lambda d: call(d.real(2, 2), (1, 0), "constant", 0.5))
each("constant_pad_nd", lambda d: call(d.real(2, 2), (1, 0), 0.5))
each("nn.functional.pad reflect", lambda d: call(d.real(1, 2, 3), (1, 2), "reflect"))
each(
    "nn.functional.pad replicate, nn.functional.pad replicate_negative",
    lambda d: call(d.real(1, 1, 3), (1, 2), "replicate"),
)
each("nn.functional.pad circular", lambda d: call(d.real(1, 2, 3), (1, 2), "circular"))

# ------------------------------------------------------------------------------------ new tensors

each("zeros, ones", lambda d: call((2, 3), dtype="float64"))
each("full", lambda d: call((2, 2), 1.5, dtype="float64"))
each("zeros_like, ones_like", lambda d: call(d.real(2, 2)))
each("full_like", lambda d: call(d.real(2, 2), 1.5))
each("fill", lambda d: call(d.real(2, 2), 1.5))
each("new_zeros, new_ones", lambda d: call(d.real(2), (2, 2)))
each("new_full", lambda d: call(d.real(2), (2, 2), 1.5))
each("scalar_tensor", lambda d: call(1.5, dtype="float64"))
each("eye", lambda d: call(2, 3, dtype="float64"))
each("arange", lambda d: call(1, 5, 2, dtype="float64"), lambda d: call(4, dtype="int64"))
each("linspace", lambda d: call(-1.0, 2.0, 5, dtype="float64"))
