"""Mathematical functions as straight-line IR: polynomials and bit tricks, no calls, scalar or vector alike.

Each takes and returns `float` or `double` values. Accuracy in ULP is measured by bench/ulp.py and held by tests.
"""
