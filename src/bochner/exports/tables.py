"""Models of tables as graphs: numbers with gaps, scaling, trees, and an exact model in each leaf.

Rows find their leaf by gathering the cut of the node they are at, once a level; each leaf then gathers its rows, and
scatters what it predicts, so that a row costs one leaf and not all of them.
"""

from __future__ import annotations

import numpy as np

from bochner.backends import Array
from bochner.exports.graphs import DOUBLE, INT, Tensor, concat
from bochner.exports.kernels import block
from bochner.tables.columns import Column
from bochner.tables.leaves import LocalModel, Tree
from bochner.tables.members import Member
from bochner.tables.scaling import Scaling


def scores(members: tuple[Member, ...], columns: tuple[Column, ...], X: Tensor) -> Tensor:
    """Average the members: (n, k), in float64."""
    A = numbers(columns, X)
    total: Tensor | None = None
    for member in members:
        part = _local(member.model, _scaled(member.scaling, A)) * member.share
        total = part if total is None else total + part
    assert total is not None
    return total


def numbers(columns: tuple[Column, ...], X: Tensor) -> Tensor:
    """Encode the columns of a table, (n, d); columns of numbers alone."""
    others = [column for column in columns if column.plan not in ("number", "left out")]
    if others:
        listed = ", ".join(f"{column.name!r} ({column.kind})" for column in others[:5])
        raise ValueError(
            f"an ONNX graph takes tables of numbers; these columns are none: {listed}{', …' if others[5:] else ''}. "
            "Encode them before `fit`, or use bochner.save."
        )
    parts = []
    for j, column in enumerate(columns):
        if column.plan == "left out":
            continue
        x = X.columns(j, j + 1)
        gaps = x.graph.node("IsNaN", [x], np.bool_)
        parts.append(gaps.where(float(column.fills[0]), x, DOUBLE))
        if column.gaps:
            parts.append(gaps.astype(DOUBLE))
    if not parts:
        x = X.columns(0, 1)
        return x.graph.node("IsNaN", [x], np.bool_).where(0.0, 0.0, DOUBLE)
    return concat(parts)


def _scaled(scaling: Scaling, A: Tensor) -> Tensor:
    out = (A - scaling.centres) / scaling.sizes
    if any(len(knots) for knots in scaling.knots):
        parts = [
            _ranks(A.columns(j, j + 1), knots, ranks) if len(knots) else out.columns(j, j + 1)
            for j, (knots, ranks) in enumerate(zip(scaling.knots, scaling.ranks, strict=True))
        ]
        out = concat(parts)
    return out if scaling.directions is None else out @ scaling.directions


def _ranks(x: Tensor, knots: Array, ranks: Array) -> Tensor:
    """Interpolate a column (n, 1) linearly."""
    x = x.maximum(float(knots[0])).minimum(float(knots[-1]))
    inner = x.graph.constant(knots[1:-1][None, :], DOUBLE)
    index = x.graph.node("GreaterOrEqual", [x, inner], np.bool_).astype(INT).reduce("Sum", 1)
    place, rank, slope = (
        x.graph.constant(values, DOUBLE).gather(index, axis=0).reshape(-1, 1)
        for values in (knots[:-1], ranks[:-1], np.diff(ranks) / np.diff(knots))
    )
    return slope * (x - place) + rank


def _leaves(tree: Tree, X: Tensor) -> Tensor:
    """Return the number of the leaf of each row, (n,)."""
    graph, n = X.graph, len(tree.columns)
    leaf, depth = tree.columns < 0, np.zeros(n, dtype=int)
    for node in range(n):  # children come after their parents
        if not leaf[node]:
            depth[tree.children[node]] = depth[node] + 1
    stay = np.where(leaf[:, None], np.arange(n)[:, None], tree.children)
    columns, cuts, below, above = (
        graph.constant(values, kind)
        for values, kind in ((np.where(leaf, 0, tree.columns), INT), (tree.cuts, DOUBLE), *((c, INT) for c in stay.T))
    )
    nodes = (X.columns(0, 1) * 0.0).astype(INT).reshape(-1)
    for _ in range(int(depth.max())):
        x = graph.node("GatherElements", [X, columns.gather(nodes, axis=0).reshape(-1, 1)], DOUBLE, axis=1)
        right = graph.node("Greater", [x.reshape(-1), cuts.gather(nodes, axis=0)], np.bool_)
        nodes = right.where(above.gather(nodes, axis=0), below.gather(nodes, axis=0), INT)
    return graph.constant(np.where(leaf, tree.children[:, 0], 0), INT).gather(nodes, axis=0)


def _local(model: LocalModel, X: Tensor) -> Tensor:
    """Predict by the leaf that each row falls in, (n, k)."""

    def one(number: int, rows: Tensor) -> Tensor:
        leaf = model.leaf(number)
        return block(model.kernel, rows, leaf.points) @ leaf.coefficients + leaf.intercept

    if model.tree.n_leaves == 1:
        return one(0, X)
    graph, numbers_ = X.graph, _leaves(model.tree, X)
    out = X.columns(0, 1) * 0.0 + np.zeros((1, model.n_targets))
    for number in range(model.tree.n_leaves):
        rows = graph.node("NonZero", [numbers_.equal(number)], INT).reshape(-1)
        predicted = one(number, X.gather(rows, axis=0))
        out = graph.node("ScatterND", [out, rows.reshape(-1, 1), predicted], DOUBLE)
    return out
