"""actorflow: dataflow graphs whose nodes are asyncio actors. `import actorflow as af`.

The names come from `actorflow.ops` and `actorflow.public`, all at once, when the first of them is
asked for. Until then the import costs nothing, so that the command line is ready for Ctrl-C before
numpy is there.
"""

# ruff: noqa: F405  the names of __all__ come through a star

import sys

TYPE_CHECKING = False  # type checkers know the name; typing would take longer than the rest of this import

__version__ = "0.1.0"

__all__ = [
    "Actor", "ActorSystem", "ActorflowError", "FIFOQueue", "Graph", "OptimizerActor", "Program", "Ref",
    "Session", "Spec", "Tensor", "Terminated", "UpdateContext", "Variable", "abs", "add",
    "apply_gradients", "arange", "argmax", "argwhere", "batch_to_space", "boolean_mask",
    "broadcast_arrays", "broadcast_like", "broadcast_to", "cast", "check_numerics", "colocate_with",
    "concat", "constant", "control_dependencies", "conv2d", "count", "custom_gradient",
    "depth_to_space", "device", "diag_embed", "diagonal", "divide", "dropout", "dynamic_partition",
    "dynamic_stitch", "ensure_shape", "equal", "errors", "exp", "expand_dims", "extract_patches", "eye",
    "flatten", "flip", "floor", "from_data", "full", "full_like", "gather", "gather_nd", "gradients",
    "greater", "greater_equal", "identity", "init", "invert_permutation", "less", "less_equal",
    "linspace", "log", "log_softmax", "logical_and", "logical_not", "logical_or", "matmul", "max",
    "max_pool", "maximum", "mean", "meshgrid", "min", "minimize", "minimum", "moveaxis", "multiply",
    "name_scope", "negative", "not_equal", "one_hot", "ones", "ones_like", "optim", "pad",
    "placeholder", "pow", "put_along_axis", "random_normal", "random_uniform", "rank", "relu", "repeat",
    "reshape", "reshape_like", "reverse_sequence", "roll", "run", "scatter_add", "scatter_max",
    "scatter_min", "scatter_nd", "scatter_nd_add", "scatter_nd_max", "scatter_nd_min",
    "scatter_nd_update", "scatter_update", "select", "sequence_mask", "shape", "sigmoid", "sign",
    "size", "slice", "slice_update", "softmax", "softmax_cross_entropy", "space_to_batch",
    "space_to_depth", "split", "sqrt", "square", "squeeze", "stack", "stop_gradient", "subtract", "sum",
    "sum_to", "supervision", "swapaxes", "take_along_axis", "tanh", "tile", "to_data", "transpose",
    "tril", "triu", "unstack", "where", "zeros", "zeros_like",
]  # fmt: skip

if TYPE_CHECKING:
    from actorflow.ops import *  # noqa: F403
    from actorflow.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            message = f"module 'actorflow' has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[__name__])
        from actorflow import ops, public

        found = vars(ops) | vars(public)
        globals().update((public_name, found[public_name]) for public_name in __all__)
        return globals()[name]

    def __dir__() -> list[str]:
        return [name for name in globals() if name.startswith("__")] + __all__
