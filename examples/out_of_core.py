"""More rows than memory: kernel ridge on a folder of Parquet files, killed and taken up again.

The files are read a row group at a time; memory holds one block and n_components² sums. `checkpoint` writes those
sums every so often, and a fit that finds them goes on where they end.

Run ``python examples/out_of_core.py [ROWS]`` (needs ``pip install 'bochner[parquet]'``).
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bochner import KernelRidge


def write(folder, n_rows, n_files=4):
    """y = sin(a) + b c + noise over ten columns, in several files."""
    for i in range(n_files):
        rng = np.random.default_rng(i)
        X = rng.normal(size=(n_rows // n_files, 10)).astype(np.float32)
        y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X))
        table = pa.table({**{f"x{j}": X[:, j] for j in range(10)}, "y": y.astype(np.float32)})
        pq.write_table(table, folder / f"part-{i}.parquet", row_group_size=50_000)


def main(n_rows=1_000_000, n_components=512):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "data"
        data.mkdir()
        write(data, n_rows)
        model = KernelRidge(n_components=n_components, checkpoint=folder / "sums", random_state=0, verbose=1)
        model.fit(data, y="y")
        rng = np.random.default_rng(99)
        X = rng.normal(size=(2000, 10)).astype(np.float32)
        truth = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
        error = float(np.sqrt(np.mean((model.predict(frame) - truth) ** 2)))
    print(f"{model.n_samples_seen_:,} rows, {n_components} columns: error {error:.3f}, spread {truth.std():.2f}")
    return error


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
