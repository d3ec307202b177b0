"""Cases of losses."""

from __future__ import annotations

import numpy as np

from tests.oracle.cases import call, each

SIDES = np.array([1.0, -1.0])

each("nn.functional.mse_loss, nn.functional.l1_loss", lambda d: call(d.real(2, 3), d.real(2, 3) + 0.05))
each(
    "nn.functional.huber_loss, nn.functional.smooth_l1_loss",
    lambda d: call(d.real(2, 3), d.real(2, 3) + 0.05),
)
each("nn.functional.binary_cross_entropy", lambda d: call(d.share(2, 3), d.share(2, 3), reduction="sum"))
each(
    "nn.functional.binary_cross_entropy_with_logits",
    lambda d: call(d.real(2, 3), d.share(2, 3), pos_weight=d.positive(3), still=(2,)),
)
each("nn.functional.poisson_nll_loss", lambda d: call(d.real(2, 3), d.positive(2, 3)))
each(
    "nn.functional.gaussian_nll_loss", lambda d: call(d.real(2, 3), d.real(2, 3), d.positive(2, 3), full=True)
)
each("nn.functional.kl_div", lambda d: call(d.real(2, 3), d.share(2, 3), reduction="batchmean"))
each("nn.functional.margin_ranking_loss", lambda d: call(d.real(2), d.real(2) + 0.05, SIDES, 0.3, still=(2,)))
each("nn.functional.cosine_embedding_loss", lambda d: call(d.real(2, 3), d.real(2, 3), SIDES, still=(2,)))
each(
    "nn.functional.cosine_similarity",
    lambda d: call(d.real(2, 3), d.real(2, 3)),
    lambda d: call(d.real(2, 1), d.real(1, 3), 0),
)
each("nn.functional.pairwise_distance", lambda d: call(d.real(2, 3), d.real(2, 3)))
each("nn.functional.triplet_margin_loss", lambda d: call(d.real(2, 3), d.real(2, 3), d.real(2, 3), swap=True))
each(
    "nn.functional.soft_margin_loss", lambda d: call(d.real(2, 3), d.real(2, 3), reduction="none", still=(1,))
)
each("nn.functional.hinge_embedding_loss", lambda d: call(d.real(2), SIDES, still=(1,)))
each(
    "nn.functional.cross_entropy",
    lambda d: call(d.real(2, 3), d.whole(3, 2)),
    lambda d: call(d.real(1, 3, 2), d.whole(3, 1, 2), reduction="none"),
)
each("nn.functional.nll_loss", lambda d: call(d.real(2, 3), d.whole(3, 2)))
each(
    "nn.functional.ctc_loss",
    lambda d: call(d.real(4, 1, 3), np.array([[1, 2]]), np.array([4]), np.array([2]), reduction="sum"),
)
