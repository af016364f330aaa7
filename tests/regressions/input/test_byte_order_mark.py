"""A text that begins with a UTF-8 byte order mark is read as the text."""

from __future__ import annotations

import numpy as np

import xyla

TEXT = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT r = f32[2] negate(x)\n}\n"


def test_byte_order_mark() -> None:
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(xyla.run(b"\xef\xbb\xbf" + TEXT.encode(), [x])[0], -x)
