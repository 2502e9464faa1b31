"""Plans measured on the card that is there: every kernel with each of some tiles, the fastest of those that agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from bochner.backends import Array, Backend, backend_of, use_precision
from bochner.backends.plans import HOPPER, LEAST_SHARED, REGISTERS, SHARED_BYTES, Plans, Tile, Transform, plans_for
from bochner.backends.torch import gpu
from bochner.backends.torch.memory import Tensor

_REPEATS = 5
_AGREE = 1e-4  # relative difference allowed from torch's own operations; "fast" has 11 bits
_FAST_AGREE = 1e-2


@dataclass(frozen=True)
class Trial:
    """A kernel with the plans to be tried: what runs it into a tensor, and how one plan changes the plans of a card."""

    name: str
    run: Callable[[], Tensor]
    expected: Callable[[], Tensor]
    candidates: tuple[Any, ...]
    change: Callable[[Plans, Any], Plans]
    agree: float = _AGREE


def trials(device: str, capability: tuple[int, int], size: int) -> Iterator[Trial]:
    """Yield a problem for every kernel, of about `size` numbers."""
    draw = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, generator=draw)

    for kind in ("structured", "fastfood"):
        for q in range(7, 16):
            yield _transform_trial(kind, q, normal(max(32, size >> q), 1 << q))
    X, Y = normal(max(256, size // 2048), 28), normal(2048, 28)
    V = normal(2048, 1).double()
    cuda, wide = backend_of(X), (X.double(), Y.double())
    for name, rows, form in (
        ("differences", (X, Y), "laplacian"),
        ("wide_differences", wide, "laplacian"),
        ("squares", (X, Y), "gaussian"),
    ):
        yield Trial(
            name,
            partial(_product, cuda, *rows, form, V),
            partial(_plain_product, *wide, form, V),
            _tiles(name, capability),
            partial(_with_tile, name),
        )
    W = np.random.default_rng(0).standard_normal((2048, 28)).astype(np.float16).astype(np.float64)
    for name, precision in (("dense", "full"), ("dense_fast", "fast")):
        yield Trial(
            name,
            partial(_pairs, X, W, precision),
            partial(_plain_pairs, X, W),
            _tiles(name, capability),
            partial(_with_tile, name),
            _AGREE if precision == "full" else _FAST_AGREE,
        )
    Z = normal(max(512, size // 2048), 2048).clamp_(-4.0, 4.0)
    yield Trial(
        "digits",
        partial(_gram, Z),
        lambda: torch.tril(Z.double().T @ Z.double()),
        _tiles("digits", capability),
        partial(_with_tile, "digits"),
    )
    yield _sketch_trial(normal(max(256, size >> 10), 1024), capability)


def _sketch_trial(X: Tensor, capability: tuple[int, int]) -> Trial:
    rng, d, T, each = np.random.default_rng(1), X.shape[1], 256, 8
    places = np.concatenate([np.sort(rng.choice(T, each, replace=False)) for _ in range(d)]).astype(np.int32)
    sketch = (np.arange(0, d * each + 1, each), places, rng.choice(np.array([-1, 1], np.int8), d * each))
    return Trial(
        "signs",
        partial(_sparse, backend_of(X), X, sketch, T),
        partial(_sparse, plain_backend(), X, sketch, T),
        _tiles("signs", capability),
        partial(_with_tile, "signs"),
    )


def plain_backend() -> Backend:
    """Return torch's own operations, which kernels must agree with."""
    from bochner.backends.torch import plain

    return plain


def _sparse(backend: Backend, X: Tensor, sketch: tuple[Array, Array, Array], T: int) -> Tensor:
    out = X.new_empty((len(X), T))
    backend.sparse_rows(X, *sketch, np.ones(T, np.float32), out)
    return out


def _with_tile(name: str, plans: Plans, tile: Tile | None) -> Plans:
    changed: Any = {name: tile}
    return replace(plans, **changed)


def _tiles(name: str, capability: tuple[int, int]) -> tuple[Tile | None, ...]:
    """List the tiles to try for a kernel; None stands for torch's own operations, if the kernel allows them."""
    if name == "differences":
        return tuple(Tile(rows, 128) for rows in (32, 64, 128))
    if name == "wide_differences":
        return Tile(32, 64), Tile(64, 64)
    if name == "signs":
        return Tile(64, 64, 4, 32, 2), Tile(128, 64, 4, 32, 3), Tile(128, 128, 8, 32, 3), Tile(128, 128, 8, 32, 4)
    if name == "digits":
        return (
            None,
            Tile(128, 128, 8, 64, 3),
            Tile(128, 128, 8, 128, 3),
            Tile(256, 128, 8, 64, 4),
            Tile(256, 128, 8, 128, 3),
        )
    if capability != HOPPER:
        return (None,)
    return None, *(Tile(rows, columns) for rows in (64, 128) for columns in (32, 64))


def _transform_trial(kind: str, q: int, X: Tensor) -> Trial:
    rng, p, n_blocks = np.random.default_rng(q), 1 << q, 2
    lengths = np.full(n_blocks * p, 1.0, np.float32)
    if kind == "structured":
        signs = rng.choice(np.array([-1, 1], np.int8), (n_blocks, 3, p))
        draws: tuple[Array, ...] = (signs, lengths)
    else:
        signs = rng.choice(np.array([-1, 1], np.int8), (n_blocks, p))
        orders = np.stack([rng.permutation(p) for _ in range(n_blocks)]).astype(np.int32)
        draws = (signs, orders, rng.standard_normal((n_blocks, p)).astype(np.float32) / p, lengths)
    plans = tuple(
        plan
        for warps in ((None,) if kind == "structured" or q > 11 else (None, 1))
        for limit in (None, 64, 80, 96, 128)
        for plan in (Transform(5, warps, limit, None if q == 15 else 128),)
        if limit is None or 32 * plan.n_warps(q) * limit <= REGISTERS
    )

    def run(backend: Backend) -> Tensor:
        out = X.new_empty((len(X), 2 * n_blocks * p))
        entry: Callable[..., None] = backend.structured_pairs if kind == "structured" else backend.fastfood_pairs
        entry(X, *draws, 1.0, 0.0, out)
        return out

    def change(plans: Plans, transform: Transform) -> Plans:
        found: Any = {kind: dict(sorted({**vars(plans)[kind], q: transform}.items()))}
        return replace(plans, most_bits=max(q, plans.most_bits), **found)

    return Trial(f"{kind} 2^{q}", lambda: run(backend_of(X)), lambda: run(plain_backend()), plans, change)


def _product(backend: Backend, X: Tensor, Y: Tensor, form: str, V: Tensor) -> Tensor:
    out = V.new_empty((len(X), V.shape[1]))
    assert backend.tiles is not None
    backend.tiles(X, Y, (form, 1), V, out)
    return out


def _plain_product(X: Tensor, Y: Tensor, form: str, V: Tensor) -> Tensor:
    if form == "laplacian":
        return torch.exp(-torch.cdist(X, Y, p=1.0)) @ V
    return torch.exp(-0.5 * torch.cdist(X, Y, compute_mode="donot_use_mm_for_euclid_dist").square_()) @ V


def _pairs(X: Tensor, W: Array, precision: str) -> Tensor:
    out = X.new_empty((len(X), 2 * len(W)))
    with use_precision(precision):
        gpu.dense_pairs(X, W, 1.0, 0.0, out)
    return out


def _plain_pairs(X: Tensor, W: Array) -> Tensor:
    phases = X.double() @ torch.from_numpy(W).to(X.device).T
    return torch.stack([phases.cos(), phases.sin()], 2).reshape(len(X), -1)


def _gram(Z: Tensor) -> Tensor:
    out = Z.new_zeros((Z.shape[1], Z.shape[1]), dtype=torch.float64)
    backend_of(Z).gram(Z, out)
    return torch.tril(out)


def seconds(function: Callable[[], object]) -> float:
    """Return the median time of a call, after one that compiles."""
    function()
    times = []
    for _ in range(_REPEATS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()  # type: ignore[no-untyped-call]
        function()
        stop.record()  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        times.append(float(start.elapsed_time(stop)))  # type: ignore[no-untyped-call]
    return 1e-3 * sorted(times)[_REPEATS // 2]


def chosen(trial: Trial, plans: Plans, time: Callable[[Callable[[], object]], float] = seconds) -> tuple[Plans, str]:
    """Choose the fastest candidate of a kernel whose result is right, and return plans and measurements."""
    expected = trial.expected().double()
    best, measured, found = math.inf, [], plans
    for candidate in trial.candidates:
        tried = trial.change(plans, candidate)
        try:
            with gpu.use_plans(tried):
                result = trial.run()
                wrong = float(torch.linalg.norm(result.double() - expected) / torch.linalg.norm(expected))
                t = time(trial.run) if wrong <= trial.agree else math.inf
        except Exception as reason:  # too many registers, too much shared memory, or what this card cannot do
            measured.append(f"{candidate}: {type(reason).__name__}")
            continue
        measured.append(f"{candidate}: " + (f"{1e3 * t:.3f} ms" if t < math.inf else f"wrong by {wrong:.0e}"))
        if t < best:
            best, found = t, tried
    return found, "; ".join(measured)


def capability_of(device: str) -> tuple[int, int]:
    """Return the compute capability of a card."""
    if not torch.cuda.is_available() or torch.device(device).type != "cuda":
        raise ValueError(f"bochner autotune measures kernels of NVIDIA GPUs, and {device!r} is none.")
    return torch.cuda.get_device_capability(device)


def autotune(device: str, size: int, say: Callable[[str, str], None]) -> Plans:
    """Tune the plans of a card, starting from its current ones; `say` is told of every kernel and its measurements."""
    capability = capability_of(device)
    plans = plans_for(capability)
    if plans is None or gpu.kernels_for(torch.device(device).index or 0) is None:
        raise ValueError(
            f"{torch.cuda.get_device_name(device)} has compute capability {'.'.join(map(str, capability))} and runs "
            "torch's own operations; the kernels need Triton and a capability of 8.0 or more."
        )
    plans = replace(plans, shared=SHARED_BYTES.get(capability, LEAST_SHARED))
    for trial in trials(device, capability, size):
        plans, measured = chosen(trial, plans)
        say(trial.name, measured)
        torch.cuda.empty_cache()
    return plans


def source_of(capability: tuple[int, int], plans: Plans) -> str:
    """Return the plans as an entry of `plans.PLANS`."""
    lines = [f"    {capability}: Plans("]
    for item in fields(plans):
        value = vars(plans)[item.name]
        if isinstance(value, dict):
            inner = [f"            {key}: {plan}," for key, plan in value.items()]
            lines += [f"        {item.name}={{", *inner, "        },"]
        else:
            lines.append(f"        {item.name}={value},")
    return "\n".join([*lines, "    ),"])
