from bochner.kernels.algebra import Kernel as Kernel
from bochner.kernels.algebra import Multiple as Multiple
from bochner.kernels.algebra import Power as Power
from bochner.kernels.algebra import Product as Product
from bochner.kernels.algebra import Projected as Projected
from bochner.kernels.algebra import Restricted as Restricted
from bochner.kernels.algebra import Sum as Sum
from bochner.kernels.algebra import as_points as as_points
from bochner.kernels.conversion import Custom as Custom
from bochner.kernels.conversion import as_kernel as as_kernel
from bochner.kernels.dot_products import *  # noqa: F403
from bochner.kernels.dot_products import DotProductKernel as DotProductKernel
from bochner.kernels.invariant import CyclicInvariant as CyclicInvariant
from bochner.kernels.stationary import *  # noqa: F403
from bochner.kernels.stationary import RadialKernel as RadialKernel
from bochner.kernels.stationary import SeparableKernel as SeparableKernel
from bochner.kernels.stationary import StationaryKernel as StationaryKernel
from bochner.kernels.stationary import squared_distances as squared_distances
