"""The table of public names: what stands on top of `af`, and in which namespace the rest is.

The namespace of an API function follows from the folder of `ops` that it is in, so a new op needs no line
here. Lines are for what has a place of its own: names of the array API, what runs things, and a few functions
that users look for elsewhere. `exports` writes the lists of names from this table and the modules of `ops`.
Both read sources and import none of them, so that they work while a list is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

TOP = ""
"""The place of what users write as `af.NAME`."""

ARRAY_API = frozenset(
    """
    abs acos acosh add all any arange argmax argmin argsort asin asinh atan atan2 atanh bitwise_and
    bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays
    broadcast_to can_cast ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod
    cumulative_sum diff divide equal exp expand_dims expm1 eye finfo flip floor floor_divide full
    full_like greater greater_equal hypot iinfo imag isfinite isinf isnan less less_equal linspace
    log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul
    matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply negative nextafter
    nonzero not_equal ones ones_like positive pow prod real reciprocal remainder repeat reshape
    result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack std
    subtract sum take_along_axis tan tanh tensordot tile tril triu trunc unique_all unique_counts
    unique_inverse unique_values unstack var vecdot where zeros zeros_like
    """.split()  # noqa: SIM905  a list of 125 strings is no easier to read
)
"""Names of the array API's standard, which stand on top where there is a function of that name."""

FOLDERS: Mapping[str, str] = {
    "array": "arrays",
    "control": TOP,
    "linalg": "linalg",
    "math": "math",
    "nn": "nn",
    "state": "state",
    "text": "strings",
}
"""Folder of `ops` -> namespace of its functions."""

MODULES: Mapping[str, str] = {
    "math.random": "random",
    "math.random_choices": "random",
    "text.encoding": "io",
    "text.records": "io",
}
"""Module of `ops` -> namespace, where it is not that of the folder."""

PLACES: Mapping[str, str] = {
    **dict.fromkeys(("constant", "placeholder", "cast", "stop_gradient", "gather", "transpose"), TOP),
    "apply_gradients": TOP,
    **dict.fromkeys(("relu", "sigmoid", "one_hot", "in_top_k"), "nn"),
    **dict.fromkeys(("bincount", "histogram", "check_numerics"), "math"),
    **dict.fromkeys(("resize", "extract_patches"), "image"),
    **dict.fromkeys(("as_bytes", "decode_utf8", "to_number"), "strings"),
    "vector_norm": "linalg",
}
"""API function -> namespace, where it is not that of its module."""

PREFIXES: Mapping[str, str] = {"random": "random_", "strings": "bytes_"}
"""Namespace -> what the names of ops begin with that users leave out: `af.random.normal`."""

INTERNAL_MODULES = frozenset(
    {
        "array.indexed_slices",
        "control.tensor_list",
        "control.tensor_list_rows",
        "nn.recurrent",
    }
)
"""Modules whose functions others build with; users have classes or layers for what they do."""

INTERNAL = frozenset({"common_length"})
"""Functions that stand beside those of users and are not for them."""

OTHERS: Mapping[str, Mapping[str, str]] = {
    TOP: {
        "Actor": "actorflow.actors.actor",
        "ActorSystem": "actorflow.actors.system",
        "Async": "actorflow.coord.rules.policy",
        "Backup": "actorflow.coord.rules.policy",
        "Cluster": "actorflow.cluster.cluster",
        "Graph": "actorflow.graph.graph",
        "IndexedSlices": "actorflow.graph.slices",
        "PartitionedVariable": "actorflow.ops.state.partitioned",
        "OptimizerActor": "actorflow.dataflow.optimizer.optimizer",
        "Policy": "actorflow.coord.rules.policy",
        "Program": "actorflow.training.program",
        "Ref": "actorflow.actors.ref",
        "Session": "actorflow.session.session",
        "Spec": "actorflow.values.spec",
        "StaleSync": "actorflow.coord.rules.policy",
        "Sync": "actorflow.coord.rules.policy",
        "Tensor": "actorflow.graph.builder",
        "TensorArray": "actorflow.ops.control.tensor_array",
        "Trainer": "actorflow.cluster.trainer",
        "Variable": "actorflow.ops.state.variable",
        "ask_all": "actorflow.actors.many",
        "atomic": "actorflow.ops.state.atomic",
        "can_cast": "actorflow.values.dtypes",
        "colocate_with": "actorflow.graph.builder",
        "control_dependencies": "actorflow.graph.builder",
        "device": "actorflow.graph.builder",
        "finfo": "actorflow.values.dtypes",
        "gradients": "actorflow.graph.autodiff",
        "iinfo": "actorflow.values.dtypes",
        "minimize": "actorflow.training.minimize",
        "name_scope": "actorflow.graph.builder",
        "result_type": "actorflow.values.dtypes",
        "run": "actorflow.runtime.event_loop",
        "tell_all": "actorflow.actors.many",
    },
    "autodiff": {
        "custom_gradient": "actorflow.graph.custom",
        "hessian_vector_product": "actorflow.graph.forward",
        "jvp": "actorflow.graph.forward",
        "recompute": "actorflow.ops.control.recompute",
    },
    "io": {
        "from_data": "actorflow.graph.serial",
        "to_data": "actorflow.graph.serial",
    },
    "state": {
        "Barrier": "actorflow.ops.state.barrier",
        "ConditionalAccumulator": "actorflow.ops.state.accumulator",
        "Counter": "actorflow.ops.state.counter",
        "FIFOQueue": "actorflow.ops.state.queue_kinds",
        "QueueRunner": "actorflow.training.queue_runner",
        "HashTable": "actorflow.ops.state.hash_table",
        "PaddingFIFOQueue": "actorflow.ops.state.queue_kinds",
        "PriorityQueue": "actorflow.ops.state.queue_kinds",
        "RandomShuffleQueue": "actorflow.ops.state.queue_kinds",
        "SparseConditionalAccumulator": "actorflow.ops.state.accumulator",
        "Stack": "actorflow.ops.state.stack",
        "container": "actorflow.graph.builder",
        "producing": "actorflow.training.queue_runner",
        "reset": "actorflow.dataflow.engine.resources",
    },
    "types": {
        "Answers": "actorflow.actors.many",
        "EpochDone": "actorflow.training.events",
        "Process": "actorflow.cluster.process.process",
        "RunDone": "actorflow.training.events",
        "Slices": "actorflow.values.sparse",
        "StepDone": "actorflow.training.events",
        "Terminated": "actorflow.runtime.messages",
        "Told": "actorflow.actors.many",
        "UpdateContext": "actorflow.dataflow.optimizer.optimizer",
        "UpdateDone": "actorflow.cluster.trainer",
    },
}
"""Namespace -> name -> module, what is no API function of `ops`: classes, and functions of other rooms."""

ROOMS: Mapping[str, str] = {
    "data": "actorflow.data",
    "datasets": "actorflow.datasets",
    "errors": "actorflow.errors",
    "init": "actorflow.nn.init",
    "nn": "actorflow.nn",
    "optim": "actorflow.optim",
    "supervision": "actorflow.actors.supervision",
    "testing": "actorflow.testing",
}
"""Name on top -> the module that it is, where a room of the package is its own namespace."""

WRITTEN: Mapping[str, str] = {
    "arrays": "Arrays beyond the array API: scatter, split, pad and what reads shapes",
    "autodiff": "Gradients beyond `af.gradients`: forward mode, rules of your own, and recomputing",
    "image": "Images: resizing and patches",
    "io": "Bytes to tensors and back, records of files, and graphs as plain data",
    "linalg": "Linear algebra: factorisations, systems of equations, norms and products",
    "math": "Functions of numbers beyond the array API: special functions, segments and statistics",
    "random": "Random numbers: each run draws anew, and the seed of the session repeats it",
    "state": "State that steps share beside variables: queues, tables, counters, stacks and accumulators",
    "strings": "Strings of bytes: cutting, joining, matching and hashing",
    "types": "What users are handed and never make: for annotations and isinstance",
}
"""Namespace -> headline, for those whose modules are written from this table."""

IN_ROOMS: Mapping[str, str] = {"ActorflowError": "errors"}
"""Name that users look for on top -> the room that has it."""
