"""Cases of convolutions."""

from __future__ import annotations

from tests.oracle.cases import call, each

each("nn.functional.conv1d", lambda d: call(d.real(1, 2, 5), d.real(2, 2, 2), d.real(2), 2, 1))
each(
    "nn.functional.conv2d",
    lambda d: call(d.real(1, 1, 3, 3), d.real(2, 1, 2, 2), None, 1, "same"),
    lambda d: call(d.real(1, 2, 3, 4), d.real(2, 1, 2, 2), None, (2, 1), (0, 1), (1, 2), 2),
)
each("nn.functional.conv3d", lambda d: call(d.real(1, 1, 2, 3, 2), d.real(1, 1, 2, 2, 1), d.real(1)))
each("nn.functional.conv_transpose1d", lambda d: call(d.real(1, 2, 3), d.real(2, 1, 2), d.real(1), 2, 1, 1))
each(
    "nn.functional.conv_transpose2d",
    lambda d: call(d.real(1, 2, 2, 2), d.real(2, 1, 2, 2), None, 1, 0, 0, 2, (2, 1)),
)
each("nn.functional.conv_transpose3d", lambda d: call(d.real(1, 1, 1, 2, 2), d.real(1, 1, 2, 1, 2), None, 2))
