"""Numbers that benchmarks chose, in frozen records; the mechanisms that read them hold none of their own.

Each record names the benchmark (in ``benchmarks/``) that judges a change of its numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class MetricPolicy:
    """Rows and steps with which a metric is learned and compared with a simpler one.

    Judged by bench_defaults.py for models, and by bench_tables.py for tables.
    """

    first_rows: int  # rows on which kernels are compared and first scales are learned
    first_evaluations: int  # evaluations of the error and its derivative on these rows
    evaluations: int  # further evaluations on all rows of the sample
    direction_evaluations: int  # evaluations for a full metric
    fresh_rows: int  # with fewer other rows, learned scales are not compared with equal ones
    most_directions: int  # largest number of columns for which a full metric is learned

    @classmethod
    def for_models(cls) -> MetricPolicy:
        """Return the policy for models of features."""
        return cls(300, 9, 7, 30, 60, 1000)

    @classmethod
    def for_tables(cls) -> MetricPolicy:
        """Return the policy for tables."""
        return cls(800, 10, 16, 16, 300, 40)


@dataclass(frozen=True)
class DescentPolicy:
    """Limits of the search for length scales and penalty by gradients. Judged by bench_defaults.py."""

    penalties: tuple[float, float] = (1e-6, 1e3)  # smallest and largest penalty
    log_weights: tuple[float, float] = (-14.0, 6.0)  # limits of the log of a column's weight over its initial weight
    single_rows: int = 256  # with fewer rows, float32 saves no time
    single_alpha: float = 1e-3  # from this penalty on, float32 gives derivatives to about 1e-3
    constant: float = 1e-14  # a target with a smaller spread, over its largest value, is constant up to rounding
    least_gain: float = 1e-5  # the search ends if a step lowers the logarithm of the error by less
    distance_rows: int = 300  # rows whose mean distance is the initial length scale
    shares: tuple[float, ...] = (1.0, 0.75, 0.5, 0.0)  # shares of the learned metric that are compared on fresh rows


@dataclass(frozen=True)
class StartPolicy:
    """Choice of the kernel, of starts and of units in a metric search for models. Judged by bench_defaults.py."""

    sample_rows: int = 1000  # rows that a metric is learned on; up to this number of other rows compare it
    kernel_evaluations: int = 7  # evaluations for the common length scale and the penalty of another kernel
    short_alpha: float = 0.3  # smallest penalty with which a search from short scales starts
    groups: int = 12  # groups of rows with nearby values that show what a column explains by itself
    least_explained: float = 0.02  # columns that explain a smaller share of the variance count as this share
    large_error: float = 0.2  # from this error on, scales are also learned from other starts
    better: float = 0.97  # another start or a rough kernel is taken only if the error falls below this factor
    alike: float = 0.1  # columns have the same unit if their spreads differ by less than this share
    least_rows: int = 20  # fewest rows for which "auto" compares units of the columns
    most_numbers: int = 1 << 25  # largest number of entries of a sample as an array
    auto_columns: int = 300  # largest number of columns whose scales "auto" learns
    constant: float = 1e-12  # a column with a smaller spread, over its size, is constant up to rounding
    constant_weight: float = 1e-6  # weight of a constant column, over its size


@dataclass(frozen=True)
class ScalePolicy:
    """Search for the common length scale of a kernel. Judged by bench_defaults.py."""

    rows: int = 4000  # rows on which the length scale is tuned
    components: int = 512  # Fourier components with which the evidence is computed
    share: float = 0.25  # share of max_seconds for the kernel
    landmarks: int = 512  # landmarks with which leave-one-out errors correct the scale of a ridge regression
    log_range: float = math.log(1e3)  # largest change of the log of a scale from its start
    farthest: float = 1e17  # largest coordinate in length scales; squares of larger float32 numbers overflow
    half_step: float = math.log(2.0) / 2.0  # difference between the logs of neighbouring scales
    coarse: range = range(-8, 8, 2)  # scales tried first, in half steps from the median distance
    shorter: float = 0.5  # half steps by which the scale is shortened if X is a sample of more rows
    stage_rows: int = 1000  # fewest rows of a stage, unless there are fewer
    most_steps: int = 16  # largest number of half steps of a local search


@dataclass(frozen=True)
class LikelihoodPolicy:
    """Limits of the hyperparameters of Gaussian processes. Judged by bench_gaussian_process.py."""

    alpha_rows: int = 4000  # rows on which the ratio of noise to amplitude is chosen
    exact_rows: int = 512  # up to this number of rows, a length scale is fitted with the exact kernel
    log_range: float = math.log(1e3)  # largest change of the log of a length scale from its start
    least_noise: float = 1e-10  # smallest noise over the variance of the targets
    least_alpha: float = 1e-12  # smallest noise over the variance of the prior
    least_alpha_of_scales: float = 1e-8  # smallest noise over the variance of the prior while scales are compared
    most_prior: float = 1e3  # largest variance of the prior at the rows, over that of the targets
    less_noise: float = 9.0  # largest fall of log alpha below its grid, on which unspanned variance counts as noise


@dataclass(frozen=True)
class ComponentPolicy:
    """Search for the number of components. Judged by bench_tolerance.py."""

    slack: float = 1.05  # the number found may be larger by this factor than the smallest one that is enough
    close: float = 0.75  # the search stops at a final error above this share of tol
    first: tuple[int, int] = (256, 1024)  # limits of the first model's components, an eighth of the rows
    penalty_components: int = 512  # larger models take over the last penalty chosen
    penalty_rows: int = 512  # rows left out to refine a penalty
    penalty_steps: int = 6  # largest number of steps by which a refined penalty moves
    penalty_step: float = 10.0**0.75  # ratio of neighbouring penalties in that refinement
    for_linear: int = 2  # components for each column of X and for the constant
    much_more: int = 3  # if few components suffice for the sample, the search begins with this multiple of them
    much_fewer: int = 4  # components are dropped only if a model smaller by this factor suffices
    sample_rows: int = 20_000  # rows of the sample that decides with how many components to begin
    more: float = 1.25  # the search begins with this multiple of the components that the sample needs
    first_rows: int = 4096  # fewest rows, if not a quarter of the sample, that size the first model
    few_components: int = 2048  # the search may reach this number even if rows are few
    left_out_rows: int = 4096  # rows left out, one at a time, for alpha="loo" or "margin"
    alpha_components: int = 2048  # components that choose alpha if the Gram matrix does not fit into memory


@dataclass(frozen=True)
class ClassifierPolicy:
    """Penalty, size and length scale of classifiers. Judged by bench_defaults.py."""

    alpha_rows: int = 6000  # rows on which alpha is chosen, a third of them held out
    fold_rows: int = 3000  # rows of all folds together; up to half of them have several folds
    alpha_components: int = 1024  # components with which the penalty of two classes is chosen
    alpha_components_of_many: int = 512  # components with which the penalty of more classes is chosen
    growth_rows: int = 20_000  # rows on which n_components="auto" grows
    better: float = 0.999  # a longer length scale is taken only if the loss falls below this factor
    worse: float = 1.05  # a longer length scale whose first loss is larger by this factor is not tried further
    single_tol: float = 1e-5  # from this `solver_tol` on, float32 products are exact enough


@dataclass(frozen=True)
class TablePolicy:
    """Sizes of table models and the time they are planned for. Judged by bench_tables.py.

    Assumed operations a second do not depend on the machine, so that plans are the same everywhere. They are a third of
    the real ones. Metrics are learned in float32, and in fewer steps than the largest number that is planned.
    """

    operations: float = 1.5e10  # operations a second of one core
    learning_operations: float = 8e10  # operations a second of one core while metrics are learned
    device_operations: float = 5e12  # operations a second of a GPU
    metric_rows: tuple[int, ...] = (3000, 2500, 2000, 1500, 1000, 700, 500, 300)  # sizes of samples for metrics
    share_of_rows: int = 16  # metrics are learned on up to one row in this number
    few_rows: int = 1000  # metrics are learned on up to this number of rows whatever their share
    leaf_sizes: tuple[int, ...] = (3000, 2000, 1500, 1000, 700, 500)  # sizes of leaves
    device_leaf_sizes: tuple[int, ...] = (6000, 4000)  # additional sizes on a GPU, which uses larger leaves better
    least_leaf_sizes: tuple[int, ...] = (300, 200)  # additional sizes if a fit takes longer than planned
    landmarks: tuple[int, ...] = (1024, 512, 256)  # landmarks of the model of all rows
    overlap: float = 0.25  # share of the rows on the other side of a cut that a leaf also learns from
    growth: float = 4.0  # largest ratio of the rows in all leaves to the rows, so that time is linear in their number
    planned_growth: float = 2.0  # ratio that plans assume
    learning_share: float = 0.5  # share of the time for metrics
    leaves_share: float = 0.4  # share of the time for leaves
    landmarks_share: float = 0.1  # share of the time for landmarks
    late: float = 2.0  # a fit may take this multiple of max_seconds
    least_seconds: float = 15.0  # every fit may take this time
    learned_share: float = 0.6  # share of that time after which no metric is learned
    members_on_device: int = 2  # members fitted at a time on a device
    least_share: float = 0.01  # members with a smaller share are left out of the average
    unseen_rows: int = 500  # from this weight of mean one on, shares are chosen on rows that no metric was learned on
    folds: int = 5  # folds of cross-validation
    held_out_rows: int = 500  # with this number of held-out rows, no further fold is fitted
    sparse_columns: int = 1000  # largest number of columns of sparse rows
    spread_rows: int = 1024  # rows of a node from which the spread of its columns is computed
    least_side: float = 0.2  # smallest share of a node's rows on each side of a cut, unless no column allows it
    device_rows: int = 64  # with fewer rows in a leaf, copying its points to a device takes longer than the product
    knots: int = 256  # points at which ranks of a column are stored


@dataclass(frozen=True)
class ColumnPolicy:
    """Encoding of the columns of tables, and links of their classifiers. Judged by bench_tables.py."""

    few_levels: int = 12  # up to this number of levels, each has a column; more are encoded by mean targets
    identifier_levels: int = 50  # with more different texts, levels of two rows are those of an identifier
    folds: int = 5  # mean targets for a row are computed from the other folds
    most_extra: float = 100.0  # largest number of rows of the overall mean that are added to a level
    least_repeats: int = 3  # fewer rows of repeated levels do not determine the variance within levels
    largest: float = 1e307  # largest value whose differences do not overflow
    most_bent: float = 100.0  # largest bend of a link for scores of unit variance
    least_factor: float = 0.01  # smallest factor of log odds
