"""Cases of nn.functional."""

from __future__ import annotations

from tests.oracle.cases import call, each

for name in [
    "relu",
    "relu6",
    "selu",
    "silu",
    "mish",
    "hardswish",
    "hardsigmoid",
    "softsign",
    "logsigmoid",
    "tanhshrink",
]:
    each(f"nn.functional.{name}", lambda d: call(d.real(2, 4)))
each("nn.functional.celu", lambda d: call(d.real(2, 3), 0.5))  # torch has others in float32
each("nn.functional.elu", lambda d: call(d.real(2, 3), 0.7))
each("nn.functional.leaky_relu", lambda d: call(d.real(2, 3), 0.2))
each("nn.functional.hardtanh", lambda d: call(d.real(2, 3), -0.3, 0.4))
each("nn.functional.threshold", lambda d: call(d.real(2, 3), 0.3, -0.2))
each("nn.functional.gelu", lambda d: call(d.real(2, 3)), lambda d: call(d.real(3), approximate="tanh"))
each("nn.functional.softplus", lambda d: call(d.real(2, 3)))
each("nn.functional.hardshrink, nn.functional.softshrink", lambda d: call(d.real(2, 3), 0.4))
each("nn.functional.prelu", lambda d: call(d.real(2, 3), d.share(3)))
each("nn.functional.glu", lambda d: call(d.real(2, 4)))
each("softmax, log_softmax, nn.functional.softmin", lambda d: call(d.real(2, 3), 1))
each("softmax with_dtype, log_softmax with_dtype", lambda d: call(d.real(2, 3), 0, dtype="float64"))
each("nn.functional.softmin with_dtype", lambda d: call(d.real(2, 3), 0, dtype="float64"))
each("nn.functional.linear", lambda d: call(d.real(2, 3), d.real(2, 3), d.real(2)))
each("nn.functional.bilinear", lambda d: call(d.real(2, 2), d.real(2, 1), d.real(2, 2, 1), d.real(2)))
each("nn.functional.dropout", lambda d: call(d.real(2, 3), 0.5, False))
each("nn.functional.dropout2d", lambda d: call(d.real(1, 2, 2, 1), 0.5, False))
each("nn.functional.dropout3d", lambda d: call(d.real(1, 2, 1, 2, 1), 0.5, False))
each("nn.functional.pixel_shuffle", lambda d: call(d.real(1, 4, 1, 2), 2))
each("nn.functional.pixel_unshuffle", lambda d: call(d.real(1, 1, 2, 4), 2))
each("nn.functional.channel_shuffle", lambda d: call(d.real(1, 4, 1, 2), 2))
