"""Sets of rows."""

import numpy as np
import pytest

from wharfinger.framework.prepared import union

SETS = [[], [0], [3], [9], [1, 3, 4], [0, 9]]


@pytest.mark.parametrize("left", SETS)
@pytest.mark.parametrize("right", SETS)
def test_a_union_is_ascending_and_has_each_row_once(left, right):
    found = union(np.array(left, np.intp), np.array(right, np.intp))
    assert found.tolist() == sorted({*left, *right})
    assert found.dtype == np.intp
