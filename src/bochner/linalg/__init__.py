"""Randomised linear algebra on arrays, CSR matrices and anything with a shape and a product.

Low rank (`randomized_svd`, `randomized_eigh`, `range_finder`, `nystrom`, `generalized_nystrom`, `cx`, `cur`), least
squares and ridge regression (`lstsq`, `ridge`, `gram_solve`, `sketched_kernel_ridge`, `conjugate_gradient`,
`nystrom_preconditioner`), generalised linear models (`newton_sketch`), and numbers (`trace`, `log_determinant`,
`effective_dimension`). Every function returns a frozen result that unpacks as NumPy's would, with a `report`.
"""

from bochner.lazy import exports

__getattr__, __dir__ = exports(__name__, __file__)
