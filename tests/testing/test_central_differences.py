from __future__ import annotations

import numpy as np
import pytest

from actorflow.testing.central_differences import differences, probes, weights


def test_differences_are_the_slope_of_each_element() -> None:
    at = np.array([[0.5, -1.0], [2.0, 30.0]])

    found = differences(lambda x: float(np.sum(np.sin(x) * x)), at)

    np.testing.assert_allclose(found, np.sin(at) + at * np.cos(at), rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_probes_move_every_element_once_and_leave_the_point_alone(shape: tuple[int, ...]) -> None:
    at = np.full(shape, 2.0)

    found = list(probes(at, 1e-3))

    assert [p.index for p in found] == list(np.ndindex(shape))
    assert all(np.count_nonzero(p.above != at) == np.count_nonzero(p.below != at) == 1 for p in found)
    assert (at == 2).all()


def test_width_is_what_the_dtype_makes_of_it() -> None:
    (probe,) = probes(np.array([1000.0], "float32"), 1e-6)

    assert probe.width == float(probe.above[0]) - float(probe.below[0])
    assert probe.slope(3 * float(probe.above[0]), 3 * float(probe.below[0])) == 3


def test_directions_measure_the_product_with_the_gradient() -> None:
    at = np.linspace(-1, 1, 12).reshape(3, 4)

    for probe in probes(at, 1e-4, directions=3):
        measured = probe.slope(*(float(np.sum(v**3)) for v in (probe.above, probe.below)))
        assert measured == pytest.approx(probe.along(3 * at**2), rel=1e-6)


def test_weights_are_all_different_and_not_zero() -> None:
    found = weights((50, 20), 1.0)

    assert found.shape == (50, 20)
    assert len(np.unique(found)) == 1000
    assert np.abs(found).min() > 1e-4
