"""Cases of pooling, resizing, windows."""

from __future__ import annotations

import numpy as np

from tests.oracle.cases import call, each

each(
    "nn.functional.max_pool1d",
    lambda d: call(d.real(1, 2, 4), 2),
    lambda d: call(d.real(1, 1, 5), 2, 1, 1, 2),
)
each("nn.functional.max_pool2d", lambda d: call(d.real(1, 1, 3, 4), (2, 3), 1, (1, 0), return_indices=True))
each("nn.functional.max_pool3d", lambda d: call(d.real(1, 1, 2, 3, 2), 2, 1, ceil_mode=True))
each("nn.functional.avg_pool1d", lambda d: call(d.real(1, 2, 4), 2), lambda d: call(d.real(1, 1, 5), 3, 2, 1))
each(
    "nn.functional.avg_pool2d",
    lambda d: call(d.real(1, 1, 3, 4), (2, 3), 1, (1, 0), False, False),
    lambda d: call(d.real(1, 1, 3, 3), 2, ceil_mode=True, divisor_override=3),
)
each("nn.functional.avg_pool3d", lambda d: call(d.real(1, 1, 2, 3, 2), 2, 1))
for name in ("avg", "max"):
    each(f"nn.functional.adaptive_{name}_pool1d", lambda d: call(d.real(1, 2, 5), 2))
    each(f"nn.functional.adaptive_{name}_pool2d", lambda d: call(d.real(1, 1, 3, 5), (2, 3)))
    each(f"nn.functional.adaptive_{name}_pool3d", lambda d: call(d.real(1, 1, 2, 3, 3), (1, 2, 2)))
each(
    "nn.functional.max_unpool1d, nn.functional.max_unpool1d grad",
    lambda d: call(d.real(1, 1, 2), np.array([[[1, 2]]]), 2),
)
each(
    "nn.functional.max_unpool2d, nn.functional.max_unpool2d grad",
    lambda d: call(d.real(1, 1, 1, 2), np.array([[[[5, 2]]]]), 2),
)
each(
    "nn.functional.max_unpool3d, nn.functional.max_unpool3d grad",
    lambda d: call(d.real(1, 1, 1, 1, 2), np.array([[[[[9, 2]]]]]), 2),
)
each("nn.functional.interpolate nearest", lambda d: call(d.real(1, 1, 3), 5, mode="nearest"))
each("nn.functional.interpolate nearest-exact", lambda d: call(d.real(1, 1, 5), 3, mode="nearest-exact"))
each("nn.functional.interpolate linear", lambda d: call(d.real(1, 1, 3), scale_factor=1.7, mode="linear"))
each(
    "nn.functional.interpolate bilinear",
    lambda d: call(d.real(1, 1, 2, 3), (3, 4), mode="bilinear", align_corners=True),
    lambda d: call(d.real(1, 1, 3, 4), (2, 2), mode="bilinear"),
)
each("nn.functional.interpolate bicubic", lambda d: call(d.real(1, 1, 3, 2), (4, 2), mode="bicubic"))
each(
    "nn.functional.interpolate trilinear", lambda d: call(d.real(1, 1, 2, 2, 1), (3, 2, 1), mode="trilinear")
)
each("nn.functional.interpolate area", lambda d: call(d.real(1, 1, 5), 3, mode="area"))
each("nn.functional.upsample_nearest", lambda d: call(d.real(1, 1, 2, 2), (3, 3)))
each("nn.functional.upsample_bilinear", lambda d: call(d.real(1, 1, 2, 2), (3, 3)))
each("nn.functional.local_response_norm", lambda d: call(d.real(1, 4, 2), 3, 0.5, 0.75, 2.0))
each("nn.functional.unfold", lambda d: call(d.real(1, 2, 2, 3), (2, 2), padding=(0, 1), stride=(1, 2)))
