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
    "Session", "Spec", "Tensor", "Terminated", "UpdateContext", "Variable", "abs", "add", "all", "any",
    "apply_gradients", "argmax", "argmin", "argsort", "bincount", "broadcast_like", "broadcast_to",
    "cast", "check_numerics", "colocate_with", "concat", "constant", "control_dependencies", "conv2d",
    "count", "count_nonzero", "cumulative_max", "cumulative_min", "cumulative_prod", "cumulative_sum",
    "custom_gradient", "device", "diff", "divide", "dropout", "equal", "errors", "exp", "expand_dims",
    "floor", "from_data", "gather", "gradients", "greater", "greater_equal", "histogram", "identity",
    "in_top_k", "init", "less", "less_equal", "linear_recurrence", "log", "log_softmax", "logical_and",
    "logical_not", "logical_or", "logsumexp", "matmul", "max", "max_pool", "maximum", "mean", "median",
    "min", "minimize", "minimum", "multiply", "name_scope", "negative", "nonzero", "not_equal", "one_hot",
    "ones_like", "optim", "placeholder", "pow", "prod", "quantile", "random_normal", "random_uniform",
    "relu", "reshape", "reshape_like", "run", "searchsorted", "segment_max", "segment_mean",
    "segment_min", "segment_prod", "segment_sum", "sigmoid", "sign", "slice", "softmax",
    "softmax_cross_entropy", "sort", "sqrt", "square", "squeeze", "std", "stop_gradient", "subtract",
    "sum", "sum_to", "supervision", "tanh", "to_data", "topk", "transpose", "trapezoid", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "unsorted_segment_max", "unsorted_segment_mean",
    "unsorted_segment_min", "unsorted_segment_prod", "unsorted_segment_sum", "var", "vector_norm",
    "where", "zeros_like",
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
