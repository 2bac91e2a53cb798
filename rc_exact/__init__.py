"""Exact segments: the region boundaries between two points, solved for instead of sampled.

`python -m rc_exact.forests` fits the trees and forests of page 03.
"""

from rc_exact.plan import Refused
from rc_exact.segment import ExactSegment, exact_segment

__all__ = ["ExactSegment", "Refused", "exact_segment"]
