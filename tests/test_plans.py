"""Plans of GPU kernels: every one is legal on its card, and cards that nobody measured get safe ones."""

from __future__ import annotations

from typing import Any

import pytest

from bochner.backends import plans as table
from bochner.backends.plans import (
    DEFAULT,
    FEWEST_BITS,
    HOPPER,
    LEAST_SHARED,
    PLANS,
    REGISTERS,
    SHARED_BYTES,
    WARP_GROUP,
    Plans,
    Tile,
    Transform,
    plans_for,
)

TILES = ("dense", "dense_fast", "digits", "differences", "wide_differences", "squares", "signs")
UNKNOWN = [(8, 0), (8, 6), (8, 9), (9, 1), (10, 0), (12, 0), (99, 9)]
CARDS = [*PLANS, *(capability for capability in UNKNOWN if capability not in PLANS)]


def power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def shared_bytes(tile: Tile, kernel: str) -> int:
    """Return the bytes of shared memory that the smallest problem of a kernel takes with a tile."""
    if kernel in ("dense", "dense_fast"):  # parts of X, and of two tiles of W: 32 halves of each row
        return (3 if kernel == "dense" else 1) * (tile.rows + 2 * tile.columns) * 64
    if kernel == "squares":  # two parts, and two tiles of float32 numbers
        return 2 * (tile.rows + tile.columns) * 64 + 8 * tile.rows * tile.columns
    if kernel == "digits":
        return tile.stages * (tile.rows + tile.columns) * tile.depth
    if kernel == "signs":  # three parts of X and the signs, two bytes each
        return tile.stages * (2 * tile.rows + tile.columns) * tile.depth * 2
    return 8 * tile.columns  # sums of the warps


@pytest.mark.parametrize("capability", CARDS, ids=str)
@pytest.mark.parametrize("kernel", TILES)
def test_every_tile_is_legal_on_its_card(kernel: str, capability: tuple[int, int]) -> None:
    plans = plans_for(capability)
    assert plans is not None
    assert plans.shared <= SHARED_BYTES.get(capability, LEAST_SHARED)
    tile = getattr(plans, kernel)
    if tile is None:
        return
    assert all(map(power_of_two, (tile.rows, tile.columns, tile.warps, tile.depth)))
    assert 1 <= tile.warps <= 32
    assert tile.stages >= 1
    assert shared_bytes(tile, kernel) <= plans.shared
    # sums of a thread: of the digits and of most others 4 bytes, of the squares and dense phases two of them
    each = (
        tile.rows * tile.columns // (32 * tile.warps) * (2 if kernel in ("dense", "squares", "wide_differences") else 1)
    )
    assert 1 <= each <= 255 - 24
    if kernel in ("dense", "dense_fast", "squares"):  # warp groups multiply 64 rows each
        assert capability == HOPPER
        assert tile.warps % WARP_GROUP == 0
        assert tile.rows % (16 * tile.warps) == 0
        assert tile.columns % 8 == 0
        assert tile.columns <= 256
    if kernel == "signs":
        assert 128 % tile.rows == 128 % tile.columns == 0


@pytest.mark.parametrize("capability", CARDS, ids=str)
@pytest.mark.parametrize("kind", ["structured", "fastfood"])
def test_every_transform_is_legal_on_its_card(kind: str, capability: tuple[int, int]) -> None:
    plans = plans_for(capability)
    assert plans is not None
    fewest = FEWEST_BITS + (kind == "fastfood")
    assert all(fewest <= q <= plans.most_bits for q in getattr(plans, kind))
    for q in range(fewest, plans.most_bits + 1):
        plan: Transform = getattr(plans, f"{kind}_plan")(q)
        warps = plan.n_warps(q)
        assert 1 <= warps <= 32
        assert warps * 32 << plan.registers >= 1 << q  # a row at least
        assert plan.shared(q) <= plans.shared
        for limit in (plan.limit, plan.wide_limit):
            assert limit is None or 32 * warps * limit <= REGISTERS


@pytest.mark.parametrize("capability", UNKNOWN, ids=str)
def test_cards_that_nobody_measured_get_plans_for_every_card(capability: tuple[int, int]) -> None:
    assert plans_for(capability) is DEFAULT
    assert DEFAULT.shared == LEAST_SHARED == min(LEAST_SHARED, *SHARED_BYTES.values())
    assert DEFAULT.dense is DEFAULT.dense_fast is DEFAULT.squares is None  # these need Hopper


@pytest.mark.parametrize("capability", [(5, 2), (7, 0), (7, 5)], ids=str)
def test_cards_before_ampere_run_torch(capability: tuple[int, int]) -> None:
    assert plans_for(capability) is None


@pytest.mark.parametrize("capability", list(PLANS), ids=str)
def test_what_autotune_prints_is_an_entry_of_the_table(capability: tuple[int, int]) -> None:
    pytest.importorskip("torch", reason="torch is not installed: make test-torch")
    from bochner.backends.torch.autotune import source_of

    text = source_of(capability, PLANS[capability])
    assert eval("{" + text + "}", vars(table)) == {capability: PLANS[capability]}


def test_autotune_takes_the_fastest_tile_that_is_right() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
    from bochner.backends.torch import gpu
    from bochner.backends.torch.autotune import Trial, chosen

    tried: list[Tile | None] = []
    times = {None: 4.0, Tile(16, 16): 1.0, Tile(32, 32): 3.0, Tile(64, 64): 2.0, Tile(128, 128): 0.5}

    def run() -> Any:
        tile = gpu.plans_on(torch.zeros(1)).squares
        tried.append(tile)
        if tile == Tile(128, 128):
            raise RuntimeError("out of resource: shared memory")
        return torch.ones(3) * (1.1 if tile == Tile(16, 16) else 1.0)

    def change(plans: Plans, tile: Tile | None) -> Plans:
        return Plans(plans.shared, squares=tile)

    def time(function: Any) -> float:
        function()
        return times[tried[-1]]

    trial = Trial("squares", run, lambda: torch.ones(3), tuple(times), change)
    found, measured = chosen(trial, DEFAULT, time)
    assert found.squares == Tile(64, 64)
    assert "wrong by" in measured
    assert "RuntimeError" in measured
    assert set(tried) == set(times)


@pytest.mark.parametrize("capability", [HOPPER, (8, 0)], ids=str)
def test_every_kernel_has_a_trial(capability: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
    from bochner.backends.torch.autotune import trials

    known = plans_for(capability)
    assert known is not None
    found = set()
    for trial in trials("cpu", capability, 1 << 12):
        kernel = trial.name.split(" ")[0]
        found.add(kernel)
        assert trial.candidates
        changed = {repr(getattr(trial.change(known, candidate), kernel)) for candidate in trial.candidates}
        assert len(changed) == len(trial.candidates)  # each is a plan of this kernel
        if kernel in TILES or trial.name.endswith("2^7"):
            assert torch.isfinite(trial.expected()).all()
    assert found == {*TILES, "structured", "fastfood"}


@pytest.mark.gpu
def test_trials_on_a_gpu() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    from dataclasses import replace

    from bochner.backends.torch.autotune import chosen, trials

    capability = torch.cuda.get_device_capability()
    plans = plans_for(capability)
    assert plans is not None
    for trial in trials("cuda", capability, 1 << 18):
        if " " not in trial.name or trial.name.endswith(("2^7", "2^12")):
            _, measured = chosen(replace(trial, candidates=trial.candidates[-1:]), plans)
            assert measured.endswith("ms"), f"{trial.name}: {measured}"
