"""Exact segments: the region boundaries between two points, solved for instead of sampled."""

from rc_exact.segment import ExactSegment, exact_segment

__all__ = ["ExactSegment", "exact_segment"]
