"""What users test their own programs with: `af.testing`."""

from __future__ import annotations

from actorflow.testing.gradient_check import GradientReport, check_gradients
from actorflow.testing.measure import Compared

__all__ = ["Compared", "GradientReport", "check_gradients"]
