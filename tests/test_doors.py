"""Numbers to correlate: whatever comes in is read right or named."""

import numpy as np
from conftest import FUZZ
from hypothesis import given
from hypothesis import strategies as st

from rc_utils.correlation import correlate

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, 1e12, 1e308, -1e308, 5e-324, 1.0]
)


@given(
    rows=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12),
    method=st.sampled_from(["pearson", "spearman", "kendall"]),
)
@FUZZ
def test_numbers_to_correlate(rows, method):
    """The correlation of finite numbers is in [-1, 1] and its interval, or not there."""
    x, y = np.array(rows, dtype=float).reshape(-1, 2).T
    found = correlate(x, y, method)
    assert np.isnan(found.value) or -1 - 1e-12 <= found.value <= 1 + 1e-12
    assert np.isnan(found.low) or -1 - 1e-12 <= found.low <= found.high <= 1 + 1e-12
    assert len(x) >= 3 or np.isnan(found.value)
