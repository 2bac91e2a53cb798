from .segment import ExactSegment, exact_segment

__all__ = ["ExactSegment", "exact_segment"]
