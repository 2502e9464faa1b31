"""The command line: `bochner compare | fit | predict | recommend | reproduce | doctor`.

Exit codes: 0 done, 1 something unexpected, 2 a mistake in the command or the data (the message says which), 3 a package
that is not installed, 130 interrupted.
"""

from __future__ import annotations

import sys

OK, UNEXPECTED, USAGE, MISSING, INTERRUPTED = 0, 1, 2, 3, 130


def main() -> None:
    """Run the command line."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        if sys.argv[1:] == ["doctor"]:
            from bochner.cli.doctor import report

            for name, value in report().items():
                print(f"{name:16}{value}")
            sys.exit(OK)
        print(
            f"bochner: the command line needs {error.name}, which is not installed: pip install 'bochner[cli]'.",
            file=sys.stderr,
        )
        sys.exit(MISSING)
    from bochner.cli.app import run

    sys.exit(run())
