"""Models as files: `save` and `load`. One safetensors file, no pickle, nothing in it is ever executed."""

from __future__ import annotations

import json
import os
from typing import Any, Literal

import numpy
import scipy
import sklearn

from bochner.checks import check_flag
from bochner.persistence.codecs import Decoder, Encoder, classes
from bochner.persistence.containers import Json, ModelFileError, parse, read, write
from bochner.persistence.deployment import for_predictions
from bochner.version import __version__

__all__ = ["FORMAT", "ModelFileError", "classes", "load", "save"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: raised when files of this version can no longer be read by the code before it
FORMAT = 2


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    sums: bool = False,
    predict_only: bool = False,
    weights: Literal["float32", "float16"] | None = None,
) -> None:
    """Write a model, transformer, kernel or feature map to one file, fitted or not.

    The file is a safetensors file: arrays as they are (signs as bits), everything else as JSON in its header, with the
    versions of the libraries and a checksum. It is written under another name and then renamed, so that an interrupted
    `save` leaves the old file or the new one; a link is followed, and a pipe or a device is written into.

    Parameters
    ----------
    model : object of a class of bochner
        Objects of other libraries inside it (a scikit-learn transformer as `features`, a function as kernel) are
        refused with a TypeError that names them; NumPy functions such as ``np.cosh`` are kept by name.
    path : path-like
    sums : bool, default=False
        Whether to keep the n_components² / 2 sums that a model learned from, which `partial_fit` and `merge` add to
        and no prediction needs: 67 MB for 4,096 components. The rest of a model with a fast map is some kilobytes.
    predict_only : bool, default=False
        Whether to leave out all that predictions do not need, for a file to deploy. `labels_` of a clustering are left
        out; a KernelRidge or KernelClassifier with Nyström features has landmarks and a weight for each instead of
        n_components² / 2 numbers (a tenth of the bytes; `feature_map_` of the loaded model then gives kernel values).
        Predictions are the same, to the last bit (on a device up to rounding).
    weights : {None, "float32", "float16"}, default=None
        The type in which coefficients are stored; a loaded model has them in their own type again. None keeps all
        digits; "float16" keeps three, relative to the largest coefficient, in a quarter of the bytes. The smaller
        the penalty, the larger the coefficients beside predictions, and the fewer digits of those are left: compare
        predictions before you deploy. Nyström features are then kept as they are, and so are the leaves of a table's
        model: weights of landmarks cancel one another and need all digits.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import bochner
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> model = bochner.KernelRidge(n_components=32, random_state=0).fit(X, X.sum(axis=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.safetensors"
    ...     bochner.save(model, path)
    ...     again = bochner.load(path)
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    if weights is not None and weights not in ("float32", "float16"):
        raise ValueError(f"weights must be None, 'float32' or 'float16', got {weights!r}.")
    if weights is not None and sums:
        raise ValueError("weights and sums exclude each other: sums are for learning on, with all digits.")
    if check_flag("predict_only", predict_only):
        if sums:
            raise ValueError("predict_only and sums exclude each other: sums are for learning on.")
        model = for_predictions(model, fold=weights is None)
    encoder = Encoder(sums=sums, weights=weights)
    try:
        tree = encoder.encode(model, type(model).__name__)
    except RecursionError:
        raise TypeError("the model refers to itself, or is nested too deeply for a file.") from None
    if not (isinstance(tree, dict) and "class" in tree):
        raise TypeError(f"save takes a model, transformer, kernel or feature map of bochner; got {type(model)!r}.")
    written = 1 if weights is None else 2  # versions before weights read the first
    text = json.dumps({"format": written, "versions": _versions(), "model": tree}, allow_nan=False)
    write(path, text, encoder.tensors)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote.

    Nothing in the file is executed or imported, so that files from anywhere may be loaded: one that is cut short,
    damaged, forged or written by a later version gives a `ModelFileError`, in memory and time in proportion to its
    length.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    model : object
        Equal to the one saved, except for its sums: the same predictions, to the last bit on the same machine.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import bochner
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "kernel.safetensors"
    ...     bochner.save(2.0 * bochner.RBF(3.0), path)
    ...     bochner.load(path)
    2.0 * RBF(3.0)
    """
    text, tensors = read(path)
    about = parse(text, path)
    found = about.get("format")
    if type(found) is not int or found < 1:
        raise ModelFileError(f"{path} does not say in which format it is.")
    if found > FORMAT:
        raise ModelFileError(
            f"{path} is in format {found}, written by bochner {_said(about)}; this version reads formats up to "
            f"{FORMAT}. Install a later bochner."
        )
    try:
        return Decoder(tensors).decode(about["model"])
    except ModelFileError as error:
        raise ModelFileError(f"{path}, written by bochner {_said(about)}, cannot be loaded: {error}") from None
    except Exception as error:  # whatever a forged file made of our constructors
        raise ModelFileError(
            f"{path} does not hold a valid model ({type(error).__name__}: {str(error)[:200]})."
        ) from error


def _said(about: Json) -> str:
    versions = about.get("versions")
    return str(versions.get("bochner", "?"))[:40] if isinstance(versions, dict) else "?"


def _versions() -> dict[str, str]:
    modules = {"numpy": numpy, "scipy": scipy, "scikit-learn": sklearn}
    return {"bochner": __version__} | {name: str(module.__version__) for name, module in modules.items()}
