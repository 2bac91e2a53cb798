"""Exact segments: the boundaries of the regions between two points, solved for instead of sampled."""

from rc_exact.segment import ExactSegment, exact_segment

__all__ = ["ExactSegment", "exact_segment"]
