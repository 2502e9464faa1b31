# ----------------------------------------------------------------------------------------------------------- distances


@triton.jit(do_not_specialize=_ANY_COUNT[:1])
def _distances(X, Y, out, n, m, d, x_stride, y_stride, out_stride, FORM: tl.constexpr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sums of squared or absolute differences, a tile a program; X (d, n) and Y (d, m) are transposed."""
    row = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    col = tl.program_id(1).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), X.dtype.element_ty)
    for k in range(d):
        x = tl.load(X + k * x_stride + row, mask=row < n, other=0.0)
        y = tl.load(Y + k * y_stride + col, mask=col < m, other=0.0)
        difference = x[:, None] - y[None, :]
        if FORM == 0:
            total += tl.abs(difference)
        else:
            total += difference * difference
    if FORM == 2:
        total = tl.exp(-0.5 * total)
    at = out + row[:, None] * out_stride + col[None, :]
    tl.store(at, total, mask=(row[:, None] < n) & (col[None, :] < m))


def distances(X: Any, Y: Any, out: Any, form: str) -> None:
    """Squared Euclidean or city-block distances, from the differences, or the Gaussian kernel of the former."""
    (n, d), m = X.shape, len(Y)
    X, Y = X.T.contiguous(), Y.T.contiguous()
    size, warps = (128 if X.element_size() == 4 else 64), 4  # eight warps take five times as long
    grid, code = (-(-n // size), -(-m // size)), ("absolute", "squared", "gaussian").index(form)
    _distances[grid](X, Y, out, n, m, d, n, m, out.stride(0), code, size, num_warps=warps)


# ---------------------------------------------------------------------------------- products of float32 in float64


@triton.jit(do_not_specialize=_ANY_COUNT[:1])
def _rows_product(Z, v, out, n, m, z_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Some rows of Z times v: Z is read once."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float64)
    for start in range(0, m, COLUMNS):
        inside = start + col < m
        z = tl.load(
            Z + row[:, None] * z_stride + (start + col)[None, :], mask=(row[:, None] < n) & inside[None, :], other=0.0
        )
        total += z.to(tl.float64) * tl.load(v + start + col, mask=inside, other=0.0)[None, :]
    tl.store(out + row, tl.sum(total, 1), mask=row < n)


@triton.jit(do_not_specialize=_ANY_COUNT)
def _columns_product(Z, u, out, n, m, z_stride, per_program, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Some columns of Z times u, over a share of the rows."""
    col = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(1).to(tl.int64) * per_program
    total = tl.zeros((ROWS, COLUMNS), tl.float64)
    for start in range(0, per_program, ROWS):
        row = first + start + tl.arange(0, ROWS)
        there = row < n
        z = tl.load(Z + row[:, None] * z_stride + col[None, :], mask=there[:, None] & (col[None, :] < m), other=0.0)
        total += z.to(tl.float64) * tl.load(u + row, mask=there, other=0.0)[:, None]
    tl.store(out + tl.program_id(1).to(tl.int64) * m + col, tl.sum(total, 0), mask=col < m)


def rows_product(Z: Any, v: Any) -> Any:
    """Z v of float32 features and a float64 vector, in float64."""
    out = v.new_empty(len(Z))
    _rows_product[(-(-len(Z) // 8),)](Z, v, out, len(Z), Z.shape[1], Z.stride(0), 8, 256, num_warps=4)
    return out


def columns_product(Z: Any, u: Any) -> Any:
    """Zᵀ u of float32 features and a float64 vector, in float64."""
    n, m = Z.shape
    per_program = 8 * max(1, -(-n // 512))
    parts = -(-n // per_program)
    out = u.new_empty((parts, m))
    _columns_product[(-(-m // 256), parts)](Z, u, out, n, m, Z.stride(0), per_program, 8, 256, num_warps=4)
    return out.sum(0)
