"""`bochner doctor`: what this installation can use. It needs only what bochner needs, and says what else there is."""

from __future__ import annotations

from bochner.cli import OK


def report() -> dict[str, str]:
    """Describe the processor, compiled code, linear algebra, threads, GPU and packages."""
    from bochner.backends import machines
    from bochner.comparison.compare import show_bytes

    about = machines.describe()
    levels = ", ".join(about["native_levels"])
    rows = {
        "processor": f"{about['cpu']}, {about['cores']} cores ({', '.join(about['instructions']) or 'unknown'})",
        "memory": "unknown" if about["memory"] is None else show_bytes(about["memory"]),
        "system": f"{about['system']}, Python {about['versions']['python']}",
        "native code": "none: everything runs in NumPy, slower",
        "threads": f"{about['threads']} (OMP_NUM_THREADS or n_jobs change it)",
        "linear algebra": "; ".join(about["blas"]) or "unknown",
        "GPU": machines.gpu(),
    }
    if levels:
        rows["native code"] = f"{about['native_level']} of {levels} (BOCHNER_LEVEL changes it)"
    for package in ("bochner", *machines.REQUIRED):
        rows[package] = about["versions"][package]
    for package, (extra, purpose) in machines.OPTIONAL.items():
        found = machines.version_of(package)
        rows[package] = found or f"not installed; pip install 'bochner[{extra}]' for {purpose}"
    return rows


def doctor() -> int:
    """Show what this installation can use.

    Processor, native code, linear algebra, threads, packages and GPU.
    """
    from bochner.cli.screen import console, facts

    console().print(facts(report()))
    return OK
