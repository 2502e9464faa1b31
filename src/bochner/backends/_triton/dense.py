# -------------------------------------------------------------------------------------------------------- dense phases

_ROWS = 64  # of X, and of W, in a program


@triton.jit(do_not_specialize=_ANY_COUNT[:1])
def _split_rows(X, out, scales, n, d, x_stride, factor, ROWS: tl.constexpr, K: tl.constexpr, KP: tl.constexpr,  # type: ignore[no-untyped-def]
                LOW: tl.constexpr):  # fmt: skip
    """Rows times a power of two, so that the largest number is about 2^14, as one or two half-precision numbers."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, KP)
    there = (row[:, None] < n) & (col[None, :] < d)
    x = tl.load(X + row[:, None] * x_stride + col[None, :], mask=there, other=0.0)
    exponent = (tl.max(tl.abs(x), 1).to(tl.int32, bitcast=True) >> 23) & 255
    exponent = tl.minimum(tl.maximum(exponent, 15), 254)
    x = x * ((268 - exponent) << 23).to(tl.float32, bitcast=True)[:, None]
    high = x.to(tl.float16)
    at = out + row[:, None] * (K * (1 + LOW)) + col[None, :]
    mask = (row[:, None] < n) & (col[None, :] < K)
    tl.store(at, high, mask=mask)
    if LOW:
        tl.store(at + K, (x - high.to(tl.float32)).to(tl.float16), mask=mask)
    tl.store(scales + row, ((exponent - 14) << 23).to(tl.float32, bitcast=True) * factor, mask=row < n)


@lru_cache
def _dense_layouts(BM: int, BN: int, n_warps: int) -> tuple[Any, Any]:
    """The layout of a product, and the same with two numbers for one: a thread stores 16 bytes in a row."""
    registers = [[0, 1], [0, 2], [8, 0]] + [[0, 16 << i] for i in range((BN // 8).bit_length() - 1)]
    warps = [[16 << i, 0] for i in range(n_warps.bit_length() - 1)]
    pairs = gl.DistributedLinearLayout(registers, [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warps, [], [BM, 2 * BN])
    return gl.NVMMADistributedLayout([3, 0], [n_warps, 1], [16, BN, 16]), pairs


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _dense(X, W, scales, out, n, T, out_stride, n_columns, per_program, scale, tail, BM: gl.constexpr,  # type: ignore[no-untyped-def]
           BN: gl.constexpr, NK: gl.constexpr, X_LOW: gl.constexpr, W_LOW: gl.constexpr, WARPS: gl.constexpr,
           L: gl.constexpr, D: gl.constexpr, ODD: gl.constexpr):  # fmt: skip
    NX: gl.constexpr = NK * (1 + X_LOW)
    NW: gl.constexpr = NK * (1 + W_LOW)
    G: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [WARPS, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(64, 16, rank=2)
    x = gl.allocate_shared_memory(gl.float16, [NX, BM, 32], shared)
    w = gl.allocate_shared_memory(gl.float16, [NW, BN, 32], shared)
    row0 = gl.program_id(0).to(gl.int64) * BM
    rows = (n - row0).to(gl.int32)
    x_row = gl.arange(0, BM, layout=gl.SliceLayout(1, G))[:, None]
    w_row = gl.arange(0, BN, layout=gl.SliceLayout(1, G))[:, None]
    k = gl.arange(0, 32, layout=gl.SliceLayout(0, G))[None, :]
    for i in gl.static_range(NX):
        at = X + row0 * (NX * 32) + (x_row * (NX * 32) + i * 32 + k)
        x.index(i).store(gl.load(at, mask=x_row < rows, other=0.0))
    row = gl.arange(0, BM, layout=gl.SliceLayout(1, L))
    turns = gl.load(scales + row0 + row, mask=row < rows, other=0.0)[:, None]
    o_row = gl.arange(0, BM, layout=gl.SliceLayout(1, D))[:, None]
    o_col = gl.arange(0, 2 * BN, layout=gl.SliceLayout(0, D))[None, :]
    o_at = o_row * out_stride + o_col
    base = out + row0 * out_stride
    first = gl.program_id(1) * per_program
    last = gl.minimum(first + per_program, (T + BN - 1) // BN)
    for tile in range(first, last):
        start = tile * BN
        for i in gl.static_range(NW):
            at = W + start * (NW * 32) + (w_row * (NW * 32) + i * 32 + k)
            w.index(i).store(gl.load(at, mask=w_row < T - start, other=0.0))
        fence_async_shared()
        # small products first: every sum is cut off at the last place of what is there already
        phases = gl.zeros([BM, BN], gl.float32, layout=L)
        if X_LOW:
            for i in gl.static_range(NK):
                phases = warpgroup_mma(x.index(NK + i), w.index(i).permute((1, 0)), phases, is_async=True)
        if W_LOW:
            for i in gl.static_range(NK):
                phases = warpgroup_mma(x.index(i), w.index(NK + i).permute((1, 0)), phases, is_async=True)
        for i in gl.static_range(NK):
            phases = warpgroup_mma(x.index(i), w.index(i).permute((1, 0)), phases, is_async=True)
        phases = warpgroup_mma_wait(num_outstanding=0, deps=(phases,))
        t = phases * turns
        if ODD:
            col = start + gl.arange(0, BN, layout=gl.SliceLayout(0, L))[None, :]
            t += gl.where(2 * col == n_columns - 1, tail, 0.0)
        c, s = _waves(t)
        z = gl.convert_layout(gl.reshape(gl.join(c * scale, s * scale), [BM, 2 * BN]), D, assert_trivial=True)
        mask = (o_row < rows) & (o_col < n_columns - 2 * start)
        gl.store(base + 2 * start + o_at, z, mask=mask, cache_modifier=".cs")


@dataclass(frozen=True)
class HalfMatrix:
    """W / scale as half-precision numbers (T, 32 n_chunks), exact, or with what they leave beside them (`low`)."""

    matrix: Any
    n_chunks: int
    low: bool
    scale: float


def half_matrix(W: Array) -> HalfMatrix | None:
    """W for the tensor cores; None if it is too wide for shared memory."""
    T, d = W.shape
    n_chunks = -(-d // 32)
    top = float(np.abs(W).max(initial=0.0))
    exponent = int(np.frexp(top)[1]) - 15 if top > 0.0 else 0
    scaled = np.zeros((T, 32 * n_chunks))
    scaled[:, :d] = np.ldexp(W.astype(np.float64), -exponent)
    high = scaled.astype(np.float16)
    rest = scaled - high
    low = bool((np.abs(rest) > 2.0**-24 * np.maximum(np.abs(scaled), 1.0)).any())
    if (3 + low) * n_chunks * _ROWS * 64 > 200_000:
        return None
    parts = [high, rest.astype(np.float16)] if low else [high]
    return HalfMatrix(np.hstack(parts), n_chunks, low, float(np.ldexp(1.0, exponent)))


def dense_pairs(X: Any, W: HalfMatrix, high: Any, scales: Any, scale: float, tail: float, out: Any) -> None:
    """Pairs of X Wᵀ; `high` and `scales` are room for the rows of X as one (less precise) or two halves."""
    n, K = len(X), 32 * W.n_chunks
    x_low = high.shape[1] > K
    _split_rows[(-(-n // 32),)](
        X, high, scales, n, X.shape[1], X.stride(0), W.scale / _TURN, 32, K, triton.next_power_of_2(K), x_low
    )
    T, warps = W.matrix.shape[0], 4
    n_tiles, n_rows = -(-T // _ROWS), -(-n // _ROWS)
    per_program = -(-n_tiles // min(n_tiles, max(1, 2048 // n_rows)))
    L, pairs = _dense_layouts(_ROWS, _ROWS, warps)
    _dense[(n_rows, -(-n_tiles // per_program))](
        high, W.matrix, scales, out, n, T, out.stride(0), out.shape[1], per_program, scale, tail / _TURN, _ROWS, _ROWS,
        W.n_chunks, x_low, W.low, warps, L, pairs, out.shape[1] % 2 == 1, num_warps=warps,
    )  # fmt: skip


