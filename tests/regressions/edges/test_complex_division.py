"""Complex division where the numerator is infinite and the denominator zero (C's Annex G: an infinity)."""

from __future__ import annotations

import numpy as np

import xyla

TEXT = """HloModule m
ENTRY main {
  x = c64[3] parameter(0)
  y = c64[3] parameter(1)
  ROOT r = c64[3] divide(x, y)
}
"""


def test_infinity_by_zero_is_infinity() -> None:
    x = np.array([complex(np.inf, 1), complex(np.inf, -np.inf), complex(1, -np.inf)], np.complex64)
    y = np.array([0, 0, complex(-0.0, 0)], np.complex64)
    want = np.array([complex(np.inf, np.inf), complex(np.inf, -np.inf), complex(-np.inf, np.inf)], np.complex64)
    np.testing.assert_array_equal(xyla.run(TEXT, [x, y])[0], want)
    np.testing.assert_array_equal(xyla.interp.run(TEXT, [x, y])[0], want)
