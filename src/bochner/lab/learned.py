"""Fourier features whose frequencies are chosen or trained with the targets, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import validate_data

from bochner.backends import FLOATS, Array, as_native, check_moderate, is_moderate, reading
from bochner.certificates.records import Certificate, Effort
from bochner.checks import check_choice, check_count, check_flag, check_positive, is_auto, power_of_two
from bochner.data.labels import labels_of, unique_labels
from bochner.data.progress import Stopwatch
from bochner.data.sources import ArraySource
from bochner.data.validation import as_host, explain_rows, in_memory
from bochner.draws.keys import Key
from bochner.draws.linear_maps import Dense, LinearMap
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features.fourier import Fourier, choose_rows, draw_frequencies, n_frequencies
from bochner.kernels.algebra import Kernel, Power, Product, Projected, Restricted, Sum
from bochner.kernels.conversion import as_kernel
from bochner.lab.objectives import CirculantFrequencies, DenseFrequencies, LogObjective, SquaredObjective
from bochner.ridge.statistics import RidgeStatistics
from bochner.sampling import ROW_LAWS

if TYPE_CHECKING:
    from sklearn.utils import Tags

_CHOOSING_ROWS = 2048  # rows on which candidates are compared; eight times more rows choose no better
_TYPICAL_COMPONENTS = 64  # number of components assumed by the choice of the sampling scheme


@dataclass(eq=False, repr=False)
class LearnedFeatures(AdaptiveTransformer):
    """Fourier features whose frequencies are chosen by the targets, or trained together with a linear model.

    The first step keeps those random frequencies of a kernel whose cosines and sines correlate best with the targets
    (Shahrampour, Beirami & Tarokh 2018). Alone, with ``n_candidates=2, max_iter=0``, it takes hundredths of a second.
    If the targets consist of few frequencies, these components are worth 1.3 to 2 times as many random ones (letter,
    kin40k, ijcnn1); if they consist of many, nothing is gained (protein, california). In the second step, L-BFGS with
    exact gradients lowers the loss of the best linear model on the features (compact nonlinear maps, Yu et al. 2015): a
    few dozen trained components can replace many random ones. In return, both steps need the targets, more components
    no longer converge to the kernel, and the search has no guarantee.

    Parameters
    ----------
    kernel : str or Kernel, default="rbf"
        A stationary kernel; training starts from its random frequencies.
    n_components : int or "auto", default=64
        Number of components, exactly. "auto" doubles it, from 8, until twice as many would lower the loss of the
        rows given to `fit` by a share of at most `tol`. Each number tried is trained anew.
    loss : {"auto", "squared", "log_loss"}, default="auto"
        "squared" for numbers, any number of outputs; "log_loss" for classes. "auto" takes integers and strings for
        classes, other numbers and several outputs for numbers.
    alpha : float, default=0.1
        Penalty of the weights of the linear model: ‖Zw - y‖² + alpha ‖w‖², never scaled by the number of samples.
    circulant : bool, default=False
        Frequencies in circulant blocks: n_features parameters for n_features frequencies, products by FFT.
    n_candidates : int, default=1
        Frequencies drawn for each that is kept. 2 to 8 are good numbers: the more, the smoother are the features kept.
    max_iter : int, default=100
        Iterations of L-BFGS; 0 for none. Stopping early also regularises.
    solver_tol : float, default=1e-6
        Stop when an iteration lowers the loss by less than this share.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.

    Attributes
    ----------
    feature_map_ : Fourier
        The map itself: small, frozen, picklable.
    kernel_ : Kernel
    n_iter_ : int
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The share of the loss that twice as many components would save; only with ``n_components="auto"``.
    loss_curve_ : ndarray
        The loss at the start and after each iteration; empty if it was not asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import LearnedFeatures
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 5))
    >>> y = np.sin(4 * X[:, 0] + 2 * X[:, 1])
    >>> features = LearnedFeatures(n_components=8, random_state=0).fit(X, y)
    >>> bool(features.loss_curve_[-1] < 0.2 * features.loss_curve_[0])
    True
    """

    kernel: str | Kernel = "rbf"
    n_components: int | Literal["auto"] = 64
    _: KW_ONLY
    loss: str = "auto"
    alpha: float = 0.1
    circulant: bool = False
    n_candidates: int = 1
    max_iter: int = 100
    solver_tol: float = 1e-6
    tol: float = 0.1
    max_components: int = 1024
    n_jobs: int | None = None

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> LearnedFeatures:
        """Draw frequencies, then train them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers, or classes.
        """
        most = self._most_components()
        max_iter = check_count("max_iter", self.max_iter, least=0)
        check_positive("solver_tol", self.solver_tol, zero=True)
        circulant = check_flag("circulant", self.circulant)
        n_candidates = check_count("n_candidates", self.n_candidates)
        loss = check_choice("loss", self.loss, ("auto", "squared", "log_loss"))
        check_positive("alpha", self.alpha)
        rows, targets = self._validated(X, y)
        loss, Y = self._targets(loss, targets)
        key = Key.from_random_state(self.random_state)
        self.kernel_ = as_kernel(self.kernel).resolve(rows, key)
        self._check_kernel()
        typical = _TYPICAL_COMPONENTS if is_auto(self.n_components) else most
        law = ROW_LAWS["circulant"] if circulant else choose_rows(self.kernel_, rows.shape[1], n_candidates * typical)
        offset = 2.0 * np.pi * key.child("offsets").generator().random(1)
        few = min(rows.shape[0], _CHOOSING_ROWS)
        sample = np.sort(key.child("rows").generator().choice(rows.shape[0], few, replace=False))
        # the scale of the targets does not change the loss, but squares of very large or small ones over- or underflow
        spread, units = (_spread(Y), power_of_two(np.abs(Y).max(initial=0.0))) if loss == "squared" else (1.0, 1.0)

        @cache
        def trained(n_components: int) -> tuple[Fourier, Array]:
            T = n_frequencies(n_components, "pairs")
            drawn = draw_frequencies(self.kernel_, law, rows.shape[1], n_candidates * T, key.child("frequencies"))
            if n_candidates > 1:
                drawn = frequencies_for_targets(drawn, rows[sample], Y[sample] / spread, T)
            if max_iter == 0 and not is_auto(self.n_components):
                return Fourier(drawn, n_components, "pairs", offset, 1.0), np.empty(0)
            frequencies = CirculantFrequencies.of(drawn) if circulant else DenseFrequencies.of(drawn)
            objective_of = SquaredObjective if loss == "squared" else LogObjective
            objective = objective_of(frequencies, rows, Y / units, n_components, float(offset[0]), float(self.alpha))
            theta, curve = self._search(objective, max_iter)
            return Fourier(frequencies.at(theta[: len(frequencies.start)]), n_components, "pairs", offset, 1.0), curve

        def gain(n_components: int, sample: str) -> Certificate:
            return _avoidable_loss(trained, n_components, rows.shape[0])

        def make(n_components: int) -> Fourier:
            feature_map, self.loss_curve_ = trained(n_components)
            self.n_iter_ = min(max_iter, max(1, len(self.loss_curve_) - 1))
            return feature_map

        return self._fit_components(rows, make, certify=gain, step=2, first=8, refine=False)

    def _validated(self, X: ArrayLike, y: ArrayLike | None) -> tuple[Array, Array]:
        """Return rows and targets in memory, after checks."""
        if y is None:
            raise ValueError(
                "LearnedFeatures requires y to be passed, but the target y is None; for features that need no targets "
                "use FourierFeatures."
            )
        rows, targets = (as_native(as_host(part)) for part in in_memory(self, X, y))
        with reading("X or y", partial(explain_rows, self, rows)):
            rows, targets = validate_data(self, rows, targets, accept_sparse="csr", dtype=FLOATS, multi_output=True)
        return check_moderate(as_native(rows), alone=True), targets

    def _check_kernel(self) -> None:
        """Refuse kernels whose frequencies cannot be learned with these parameters."""
        if not self.kernel_.stationary:
            raise ValueError(
                f"LearnedFeatures starts from the frequencies of a stationary kernel, a function of x - y; "
                f"{self.kernel_!r} is not. Use kernel='rbf'."
            )
        if self.circulant and self.n_candidates > 1:
            raise ValueError(
                "circulant=True has frequencies in blocks, of which none can be chosen alone; use n_candidates=1."
            )
        if self.circulant and isinstance(self.kernel_, (Sum, Product, Power, Restricted, Projected)):
            raise ValueError(
                "circulant=True learns the frequencies of one radial kernel, such as RBF or Matern, not of sums, "
                "products, some columns or directions; use such a kernel, or circulant=False."
            )

    def _targets(self, loss: str, y: Array) -> tuple[str, Array]:
        """Resolve the loss "auto", and return it with the targets as columns: centred numbers, or one-hot classes."""
        if loss == "auto":
            with np.errstate(invalid="ignore"):  # it casts numbers beyond 2^63 to integers
                several = y.ndim > 1 and y.shape[1] > 1
                loss = "squared" if several or type_of_target(y).startswith("continuous") else "log_loss"
        if loss == "squared":
            try:
                Y = np.asarray(y, dtype=float).reshape(len(y), -1)
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError("loss='squared' needs numbers as targets; use loss='log_loss' for classes.") from error
            if not np.isfinite(Y).all():
                raise ValueError("y holds NaN or infinite values; remove those rows.")
            if not is_moderate(Y):
                raise ValueError("y holds numbers beyond 1e300; divide them by a constant.")
            return loss, Y - Y.mean(axis=0)
        if y.ndim > 1 and y.shape[1] > 1:
            raise ValueError("loss='log_loss' takes one column of classes; use loss='squared' for several outputs.")
        unique_labels(labels_of(y))
        from sklearn.preprocessing import LabelBinarizer

        binarizer = LabelBinarizer().fit(np.ravel(y))
        one_hot = np.asarray(binarizer.transform(np.ravel(y)), dtype=float)
        if len(binarizer.classes_) < 2:
            raise ValueError("the targets hold one class only; there is nothing to learn. Give at least two classes.")
        return loss, np.hstack([1.0 - one_hot, one_hot]) if one_hot.shape[1] == 1 else one_hot

    def _search(self, objective: SquaredObjective | LogObjective, max_iter: int) -> tuple[Array, Array]:
        """Return the best parameters, and the loss after each iteration."""
        start = objective.start()
        value, gradient = objective(start)
        with np.errstate(over="ignore"):
            if not np.isfinite(gradient @ gradient):
                raise ValueError(
                    "the rows are so many length scales away from zero that a step along the gradient overflows; "
                    "subtract the mean of every column, or give the kernel a longer length scale."
                )
        curve = [value]
        if max_iter == 0:
            return start, np.array(curve)
        result = scipy.optimize.minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=lambda intermediate_result: curve.append(float(intermediate_result.fun)),
            options={"maxiter": max_iter, "ftol": min(1.0, float(self.solver_tol)), "maxcor": 20},
        )
        return np.asarray(result.x), np.array(curve)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def _avoidable_loss(trained: Callable[[int], tuple[Fourier, Array]], n_components: int, n_samples: int) -> Certificate:
    """Certify the share of the loss that twice as many components would save."""
    started = Stopwatch()
    fewer, more = (float(trained(m)[1][-1]) for m in (n_components, 2 * n_components))
    value = max(0.0, 1.0 - more / fewer) if fewer > 0.0 else 0.0
    how = f"trained with {n_components} and with {2 * n_components} components"
    cost = Effort(0, n_samples, started.seconds())
    return Certificate("avoidable share of the loss as", value, (value, value), 1.0, how, cost)


def _spread(Y: Array) -> Array:
    """Return standard deviations, computed without overflow or underflow; 1 for a constant."""
    top = np.abs(Y).max(axis=0)
    top[top == 0.0] = 1.0
    spread = top * (Y / top).std(axis=0)
    return np.where(spread > 0.0, spread, 1.0)


def frequencies_for_targets(candidates: LinearMap, X: Array, Y: Array, n_kept: int) -> Dense:
    """Choose the frequencies w of best correlation with the targets, of largest ‖Σ_i (y_i - mean) exp(i w·x_i)‖²."""
    T = candidates.shape[0]
    pairs = Fourier(candidates, 2 * T, "pairs", np.zeros(1), 1.0)
    sums = RidgeStatistics(2 * T, Y.shape[1], with_gram=False)
    for Z, block in ArraySource(X, Y).features(pairs):
        sums.update(Z, block.y)
    sizes = (sums.right_side() ** 2).sum(axis=1).reshape(T, 2).sum(axis=1)
    kept = np.sort(np.argsort(-sizes, kind="stable")[:n_kept])  # in the order in which they were drawn
    return Dense(candidates.to_dense()[kept])
