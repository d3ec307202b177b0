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
    "Actor", "ActorSystem", "ActorflowError", "Answers",
    "Async", "Backup", "Barrier", "Cluster",
    "ConditionalAccumulator", "Counter", "EpochDone", "FIFOQueue", "QueueRunner", "Graph", "HashTable",
    "IndexedSlices", "OptimizerActor", "PaddingFIFOQueue", "PartitionedVariable", "Policy", "PriorityQueue",
    "Process",
    "Program", "RandomShuffleQueue", "Ref", "RunDone", "Session", "Slices", "SparseConditionalAccumulator",
    "Spec", "Stack", "StaleSync", "StepDone", "Sync", "Tensor", "TensorArray", "Terminated", "Told",
    "Trainer",
    "UpdateContext", "UpdateDone", "Variable", "abs", "absolute_difference", "acos", "acosh", "actor",
    "adaptive_avg_pool", "adaptive_max_pool", "adaptive_max_pool_places", "add", "all", "alpha_dropout",
    "angle", "any", "apply_gradients", "arange", "argmax", "argmin", "argsort", "argwhere", "as_bytes",
    "asin", "asinh", "ask_all", "atan", "atan2", "atanh", "atomic", "avg_pool",
    "batch_norm", "batch_norm_with",
    "batch_to_space", "binary_cross_entropy", "bincount", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "boolean_mask",
    "broadcast_arrays", "broadcast_like", "broadcast_to", "bytes_join", "bytes_length", "bytes_lower",
    "bytes_slice", "bytes_split", "bytes_strip", "bytes_upper", "call", "can_cast", "case", "cast", "cbrt",
    "ceil", "celu", "check_numerics", "cholesky", "cholesky_solve", "clip", "colocate_with", "complex",
    "concat", "cond", "conj", "constant", "container", "control_dependencies", "conv1d", "conv1d_transpose",
    "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "copysign", "cos", "cosh",
    "cosine_embedding_loss", "cosine_similarity", "count", "count_nonzero", "cross", "ctc_loss",
    "cumulative_max", "cumulative_min", "cumulative_prod", "cumulative_sum", "custom_gradient", "data",
    "datasets", "decode_base64", "decode_raw", "decode_utf8", "deg2rad", "depth_to_space", "depthwise_conv2d",
    "det", "device", "diag_embed", "diagonal", "diff", "digamma", "divide", "divide_no_nan", "dropout",
    "dynamic_partition", "dynamic_stitch", "eigh", "eigvalsh", "einsum", "elu", "embedding_bag",
    "embedding_lookup", "encode_base64", "encode_raw", "ensure_shape", "equal", "erf", "erfc", "erfinv",
    "errors", "exp", "exp2", "expand_dims", "expm1", "extract_patches", "eye", "finfo", "flatten", "flip",
    "floor", "floor_divide", "fmod", "fold", "from_data", "full", "full_like", "gather", "gather_nd",
    "gaussian_nll", "gelu", "global_avg_pool", "global_max_pool", "gradients", "greater", "greater_equal",
    "group_norm", "hardsigmoid", "hardswish", "hardtanh", "hash_bucket", "hessian_vector_product",
    "hinge_loss", "histogram", "huber_loss", "hypot", "identity", "iinfo", "imag", "in_top_k", "init",
    "instance_norm", "inv", "invert_permutation", "isfinite", "isinf", "isnan", "jvp", "kl_divergence",
    "kron", "l2_normalise", "layer_norm", "leaky_relu", "lerp", "less", "less_equal", "lgamma",
    "linear_recurrence", "linspace", "local_response_normalisation", "log", "log10", "log1p", "log2",
    "log_sigmoid", "log_softmax", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logsumexp", "lp_pool", "lstsq", "map_fn", "margin_ranking_loss", "matmul", "matrix_band_part",
    "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "matrix_trace", "matrix_transpose", "max",
    "max_pool", "max_pool_places", "max_unpool", "maximum", "mean", "median", "meshgrid", "min", "minimize",
    "minimum", "mish", "moveaxis", "multiply", "multiply_no_nan", "name_scope", "nan_to_num", "negative",
    "nextafter", "nn", "nonzero", "normalise", "not_equal", "one_hot", "ones", "ones_like", "optim", "outer",
    "pad", "parse_csv", "parse_example", "pinv", "placeholder", "poisson_nll", "polygamma", "positive", "pow",
    "prod", "producing", "put_along_axis", "py_actor", "qr", "quantile", "rad2deg", "random_bernoulli",
    "random_categorical", "random_exponential", "random_integers", "random_normal", "random_permutation",
    "random_shuffle", "random_truncated_normal", "random_uniform", "rank", "real", "reciprocal", "recompute",
    "regex_match", "regex_replace", "relu", "relu6", "remainder", "repeat", "reset", "reshape",
    "reshape_like", "resize", "result_type", "reverse_sequence", "rms_norm", "roll", "round", "rsqrt", "run",
    "scaled_dot_product_attention", "scan", "scatter_add", "scatter_max", "scatter_min", "scatter_nd",
    "scatter_nd_add", "scatter_nd_max", "scatter_nd_min", "scatter_nd_update", "scatter_update",
    "searchsorted", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum", "select",
    "selu", "separable_conv2d", "sequence_mask", "shape", "sigmoid", "sigmoid_cross_entropy", "sign",
    "signbit", "silu", "sin", "sinc", "sinh", "size", "slice", "slice_update", "slogdet", "smooth_l1_loss",
    "softmax", "softmax_cross_entropy", "softplus", "softsign", "solve", "sort", "space_to_batch",
    "space_to_depth", "split", "sqrt", "square", "squared_difference", "squeeze", "stack", "std",
    "stop_gradient", "subtract", "sum", "sum_to", "supervision", "svd", "svdvals", "swapaxes", "switch_case",
    "take_along_axis", "tan", "tanh", "tell_all", "tensordot", "testing", "threshold", "tile",
    "to_data", "to_number",
    "topk", "transpose", "trapezoid", "triangular_solve", "tril", "triplet_loss", "triu", "trunc",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "unsorted_segment_max",
    "unsorted_segment_mean", "unsorted_segment_min", "unsorted_segment_prod", "unsorted_segment_sum",
    "unstack", "var", "vecdot", "vector_norm", "weighted_mean", "where", "while_loop", "zeros", "zeros_like",
]  # fmt: skip

if TYPE_CHECKING:
    from actorflow.ops import *  # noqa: F403
    from actorflow.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            from actorflow.runtime.name_hints import missing

            raise missing(sys.modules[__name__], name, __all__)
        from actorflow import ops, public

        found = vars(ops) | vars(public)
        globals().update((public_name, found[public_name]) for public_name in __all__)
        return globals()[name]

    def __dir__() -> list[str]:
        return [name for name in globals() if name.startswith("__")] + __all__
