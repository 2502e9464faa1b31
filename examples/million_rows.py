"""More rows than memory: a folder of Parquet files.

Files are read a row group at a time; memory holds one block and sums. `checkpoint` writes those sums every half
minute, and a fit that finds them goes on where they end. Set N to 1,000,000 or more: time grows in proportion, memory
does not grow.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bochner import KernelRidge, Matern

N = 100_000


def rows(n, seed):
    """y = sin(a) + b c + noise over six columns."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 6)).astype(np.float32), columns=list("abcdef"))
    return table.assign(y=np.sin(table["a"]) + table["b"] * table["c"] + 0.1 * rng.normal(size=n))


Path("data").mkdir(exist_ok=True)
for i in range(4):
    pq.write_table(pa.Table.from_pandas(rows(N // 4, i)), f"data/part-{i}.parquet", row_group_size=25_000)
test = rows(2000, 99)
sizes, errors = (32, 64, 128, 256, 512), []
for m in sizes:
    model = KernelRidge(Matern(3.0), m, alpha=1.0, checkpoint="sums.checkpoint", random_state=0).fit("data", y="y")
    errors.append(float(np.sqrt(np.mean((model.predict(test[list("abcdef")]) - test["y"]) ** 2))))
    print(
        f"{model.n_samples_seen_:,} rows, {m:3d} components, {8 * m * m / 1e6:.2f} MB of sums: error {errors[-1]:.3f}"
    )
plt.loglog(sizes, errors, "o-", base=2)
plt.axhline(0.1, color="0.6", linestyle="--")
plt.annotate("noise", (sizes[0], 0.1), (0, 4), textcoords="offset points")
plt.xticks(sizes, sizes)
plt.xlabel("components")
plt.ylabel("error on new rows")
plt.title(f"{N:,} rows of Parquet")
plt.show()
