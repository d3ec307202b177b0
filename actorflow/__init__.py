"""actorflow: dataflow graphs whose nodes are asyncio actors. `import actorflow as af`.

The names come from `actorflow.public.top`, all at once, when the first of them is asked for. Until then
the import costs nothing, so that the command line is ready for Ctrl-C before numpy is there. `make docs`
writes the list of them, from the table in `actorflow.public.namespaces`.
"""

# ruff: noqa: F405, RUF022  the names of __all__ come through a star, and log10 is sorted before log2

import sys

TYPE_CHECKING = False  # type checkers know the name; typing would take longer than the rest of this import

__version__ = "0.1.0"

__all__ = [
    "Actor", "ActorSystem", "Async", "Backup", "Cluster", "Graph", "IndexedSlices", "OptimizerActor",
    "PartitionedVariable", "Policy", "Program", "Ref", "Session", "Spec", "StaleSync", "Sync", "Tensor",
    "TensorArray", "Trainer", "Variable", "abs", "acos", "acosh", "actor", "add", "all", "any",
    "apply_gradients", "arange", "argmax", "argmin", "argsort", "arrays", "asin", "asinh", "ask_all", "atan",
    "atan2", "atanh", "atomic", "autodiff", "bitwise_and", "bitwise_invert", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "broadcast_arrays", "broadcast_to", "call",
    "can_cast", "case", "cast", "ceil", "clip", "colocate_with", "concat", "cond", "conj", "constant",
    "control_dependencies", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum",
    "data", "datasets", "device", "diff", "divide", "equal", "errors", "exp", "expand_dims", "expm1", "eye",
    "finfo", "flip", "floor", "floor_divide", "fold", "full", "full_like", "gather", "gradients", "greater",
    "greater_equal", "hypot", "iinfo", "imag", "image", "init", "io", "isfinite", "isinf", "isnan", "less",
    "less_equal", "linalg", "linspace", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "map_fn", "math", "matmul", "matrix_transpose", "max",
    "maximum", "mean", "meshgrid", "min", "minimize", "minimum", "moveaxis", "multiply", "name_scope",
    "negative", "nextafter", "nn", "nonzero", "not_equal", "ones", "ones_like", "optim", "placeholder",
    "positive", "pow", "prod", "py_actor", "random", "real", "reciprocal", "remainder", "repeat", "reshape",
    "result_type", "roll", "round", "run", "scan", "searchsorted", "sign", "signbit", "sin", "sinh", "sort",
    "sqrt", "square", "squeeze", "stack", "state", "std", "stop_gradient", "strings", "subtract", "sum",
    "supervision", "switch_case", "take_along_axis", "tan", "tanh", "tell_all", "tensordot", "testing",
    "tile", "transpose", "tril", "triu", "trunc", "types", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unstack", "var", "vecdot", "where", "while_loop", "zeros", "zeros_like",
]  # fmt: skip

if TYPE_CHECKING:
    from actorflow.public.top import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            from actorflow.runtime.name_hints import missing

            raise missing(sys.modules[__name__], name, __all__)
        from actorflow.public import top

        globals().update((public_name, vars(top)[public_name]) for public_name in __all__)
        return globals()[name]

    def __dir__() -> list[str]:
        return [name for name in globals() if name.startswith("__")] + __all__
