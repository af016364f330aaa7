"""The library's calls on the host: what the runtime programs of `lowering` call as `xla.gpu.*`, in NumPy and SciPy.

Importing this package registers them. Names and attributes are those of XLA's runtime calls; what a handler adds to
them is optional. The engines do plain matrix products, copies and launches themselves.
"""

from xyla.runtime.library_calls import collectives, convolutions, feeds, linear_algebra, matrix_products, outside
