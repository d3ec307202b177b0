"""actorflow: dataflow graphs whose nodes are asyncio actors. `import actorflow as af`.

The names come from `actorflow.ops` and `actorflow.public`, all at once, when the first of them is
asked for. Until then the import costs nothing, so that the command line is ready for Ctrl-C before
numpy is there.
"""

# ruff: noqa: F405, RUF022  the names of __all__ come through a star, and log10 is sorted before log2

import sys

TYPE_CHECKING = False  # type checkers know the name; typing would take longer than the rest of this import

__version__ = "0.1.0"

__all__ = [
    "Actor", "ActorSystem", "ActorflowError", "FIFOQueue", "Graph", "OptimizerActor", "Program", "Ref",
    "Session", "Spec", "Tensor", "Terminated", "UpdateContext", "Variable", "abs", "acos", "acosh",
    "add", "angle", "apply_gradients", "argmax", "asin", "asinh", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "broadcast_like", "broadcast_to", "cast", "cbrt", "ceil", "celu", "check_numerics",
    "cholesky", "cholesky_solve", "clip", "colocate_with", "complex", "concat", "conj", "constant",
    "control_dependencies", "conv2d", "copysign", "cos", "cosh", "count", "cross", "custom_gradient",
    "deg2rad", "det", "device", "digamma", "divide", "divide_no_nan", "dropout", "eigh", "eigvalsh",
    "einsum", "elu", "equal", "erf", "erfc", "erfinv", "errors", "exp", "exp2", "expand_dims", "expm1",
    "floor", "floor_divide", "fmod", "from_data", "gather", "gelu", "gradients", "greater",
    "greater_equal", "hardsigmoid", "hardswish", "hardtanh", "hypot", "identity", "imag", "init", "inv",
    "isfinite", "isinf", "isnan", "kron", "leaky_relu", "lerp", "less", "less_equal", "lgamma", "log",
    "log10", "log1p", "log2", "log_sigmoid", "log_softmax", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "lstsq", "matmul", "matrix_band_part", "matrix_exp", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_trace", "matrix_transpose", "max", "max_pool", "maximum",
    "mean", "min", "minimize", "minimum", "mish", "multiply", "multiply_no_nan", "name_scope",
    "nan_to_num", "negative", "nextafter", "not_equal", "one_hot", "ones_like", "optim", "outer",
    "pinv", "placeholder", "polygamma", "positive", "pow", "qr", "rad2deg", "random_normal",
    "random_uniform", "real", "reciprocal", "relu", "relu6", "remainder", "reshape", "reshape_like",
    "round", "rsqrt", "run", "selu", "sigmoid", "sign", "signbit", "silu", "sin", "sinc", "sinh",
    "slice", "slogdet", "softmax", "softmax_cross_entropy", "softplus", "softsign", "solve", "sqrt",
    "square", "squared_difference", "squeeze", "stop_gradient", "subtract", "sum", "sum_to",
    "supervision", "svd", "svdvals", "tan", "tanh", "tensordot", "threshold", "to_data", "transpose",
    "triangular_solve", "trunc", "vecdot", "where", "zeros_like",
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
