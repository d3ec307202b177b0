"""Cases of normalisation and attention."""

from __future__ import annotations

import numpy as np

from tests.oracle.cases import call, each

each("nn.functional.layer_norm", lambda d: call(d.real(2, 3), (3,), d.real(3), d.real(3), 0.1))
each("native_layer_norm", lambda d: call(d.real(2, 3), (3,), d.real(3), d.real(3), 0.1))
each("nn.functional.rms_norm", lambda d: call(d.real(2, 3), (3,), d.real(3), 0.1))
each("nn.functional.group_norm", lambda d: call(d.real(2, 4, 2), 2, d.real(4), d.real(4), 0.1))
each("native_group_norm", lambda d: call(d.real(2, 4, 2), d.real(4), d.real(4), 2, 4, 2, 2, 0.1))
each("nn.functional.instance_norm", lambda d: call(d.real(1, 2, 3)))
each(
    "nn.functional.batch_norm",
    lambda d: call(d.real(2, 2, 2), None, None, d.real(2), d.real(2), True),
    lambda d: call(d.real(2, 2), d.real(2), d.positive(2), d.real(2), None, still=(1, 2)),
)
each("native_batch_norm", lambda d: call(d.real(2, 2, 2), d.real(2), d.real(2), None, None, True, 0.1, 0.1))
each(
    "nn.functional.normalize",
    lambda d: call(d.real(2, 3)),
    lambda d: call(d.real(2, 3), 3.0, 0),
)
each(
    "nn.functional.scaled_dot_product_attention",
    lambda d: call(
        d.real(2, 2), d.real(3, 2), d.real(3, 1), np.array([[True, False, True], [True, True, True]])
    ),
    lambda d: call(d.real(1, 2, 2), d.real(1, 2, 2), d.real(1, 2, 2), is_causal=True, scale=0.5),
)
each(
    "nn.functional.embedding_bag",
    lambda d: call(d.real(4, 2), d.whole(4, 5), offsets=np.array([0, 2]), mode="sum"),
    lambda d: call(d.real(4, 2), d.whole(4, 2, 2), mode="mean"),
)
