"""The compiled core of another compiler against the installed one: processor time of features, one thread.

Usage: ``python benchmarks/bench_compilers.py [clang++]``. It is built into build/ with the tools of this environment.
Ratios below 1 mean that the other is faster; every case is the best of several interleaved repetitions.
"""

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from bench_transform import best

from bochner import RBF, FourierFeatures
from bochner.backends import limit_threads, native
from bochner.backends.memory import empty_columns

ROOT = Path(__file__).parents[1]


def build(compiler):
    """The module as another compiler makes it."""
    place = ROOT / "build" / f"by-{Path(compiler).name}"
    bin_ = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_COMPILER={compiler}"]
    options.append(f"-DPython_EXECUTABLE={sys.executable}")
    for command in (["cmake", "-S", ROOT, "-B", place, *options], ["cmake", "--build", place]):
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    loader = importlib.machinery.ExtensionFileLoader("other._native", str(next(place.glob("_native*"))))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def main(compiler="clang++"):
    if shutil.which(compiler) is None:
        print(f"{compiler} is not installed: no comparison")
        return
    ours, other = native._native, build(compiler)
    other.use_level(ours.level())
    print(f"{compiler} over the installed module, level {ours.level()}: processor seconds")
    ratios = []
    n, columns = 1024, 8192
    for d in (16, 128, 1024):
        for law in ("iid", "structured", "fastfood"):
            for dtype in (np.float32, np.float64):
                X = np.random.default_rng(1).normal(size=(n, d)).astype(dtype)
                fitted = FourierFeatures(RBF(np.sqrt(d)), columns, rows=law, random_state=0).fit(X).feature_map_
                out = empty_columns(n, columns, dtype)

                def features(module, fitted=fitted, X=X, out=out):
                    native._native = module
                    fitted.into(X, out)

                with limit_threads(1):
                    calls = [lambda: features(ours), lambda: features(other)]
                    first, second = best(*calls, clock=time.process_time)
                ratios.append(second / first)
                print(f"  d={d:5d} {law:10s} {np.dtype(dtype).name}: {ratios[-1]:.2f}", flush=True)
    native._native = ours
    print(
        f"  {min(ratios):.2f} to {max(ratios):.2f}, geometric mean {np.exp(np.mean(np.log(ratios))):.2f} (limit 1.10)"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
