"""Figures in one style, written as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bochner.experiments.charts import spread
from bochner.experiments.compare import BASELINES

# Dark enough on white and light enough on black, told apart by the colour-blind too.
PALETTE = ("#2f6fb2", "#c8553d", "#3c8d63", "#8a5fb0", "#b8860b", "#5b7c8d", "#b4517f", "#6b7f2a", "#7a6a5a")
MUTED = "#8a8f98"
STYLE: dict[str, Any] = {
    "figure.figsize": (7.5, 4.8),
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.alpha": 0.2,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "svg.hashsalt": "bochner",  # the same figure is the same file
}


def pyplot() -> Any:
    """matplotlib.pyplot, drawing into files."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'bochner[plot]'.") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


@contextmanager
def figure(**options: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (figure, axes) of ``plt.subplots(**options)`` in our style and palette; closed afterwards.

    Examples
    --------
    >>> from bochner.experiments.plots import figure
    >>> with figure(ncols=2) as (fig, axes):
    ...     _ = axes[0].plot([1, 2], [3, 4])
    """
    plt = pyplot()
    from cycler import cycler

    with plt.rc_context({**STYLE, "axes.prop_cycle": cycler(color=PALETTE)}):
        fig, axes = plt.subplots(**options)
        try:
            yield fig, axes
        finally:
            plt.close(fig)


def save(fig: Any, path: str | Path, *, formats: tuple[str, ...] = ("png", "svg")) -> list[Path]:
    """Write a figure as `path` with each suffix; the folder is made where it is missing. Returns the files."""
    stem = Path(path).with_suffix("")
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_suffix(f".{suffix}") for suffix in formats]
    for file in files:
        # no date in the file, so that the same figure is the same bytes
        fig.savefig(file, dpi=160, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files


def label_ends(axes: Any, labels: dict[str, tuple[float, float, str]], *, gap: float = 0.045) -> None:
    """Write each curve's name at its end (x, y, colour), moved apart where names would overlap."""
    places = axes.transAxes.inverted().transform(
        axes.transData.transform([(x, y) for x, y, _ in labels.values()]) if labels else []
    )
    order = sorted(range(len(places)), key=lambda i: places[i][1])
    heights = spread([float(places[i][1]) for i in order], gap)
    names = list(labels)
    for i, height in zip(order, heights, strict=True):
        axes.annotate(
            names[i],
            (places[i][0], places[i][1]),
            xytext=(1.02, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=8.5,
            color=labels[names[i]][2],
            annotation_clip=False,
        )


def error_against_columns(frame: Any, path: str | Path, *, measure: str = "frobenius", title: str = "") -> list[Path]:
    """Draw a comparison's error against columns, one curve a map with the range of its runs."""
    names = {"frobenius": "relative Frobenius error", "spectral": "relative spectral error", "error": "test error"}
    maps = [name for name in frame["map"].unique() if name not in BASELINES]
    with figure() as (fig, axes):
        ends = {}
        for i, name in enumerate(maps):
            groups = frame[frame["map"] == name].groupby("columns")[measure]
            mean, low, high = groups.mean(), groups.min(), groups.max()
            colour = PALETTE[i % len(PALETTE)]
            axes.fill_between(mean.index, low, high, color=colour, alpha=0.12, linewidth=0)
            axes.plot(mean.index, mean, "o-", color=colour)
            ends[name] = (float(mean.index[-1]), float(mean.iloc[-1]), colour)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        columns = sorted(set(frame.loc[frame["map"].isin(maps), "columns"]))
        axes.set_xticks(columns, [str(n) for n in columns])
        axes.minorticks_off() if len(columns) > 1 else None
        axes.set_xlabel("columns")
        axes.set_ylabel(names[measure])
        axes.set_title(title, loc="left")
        label_ends(axes, ends)
        return save(fig, path, formats=("png",))
