"""The program: its commands, and how each ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from bochner.cli import INTERRUPTED, MISSING, OK, UNEXPECTED, USAGE
from bochner.cli.autotune import autotune
from bochner.cli.compare import compare
from bochner.cli.doctor import doctor
from bochner.cli.fit import fit
from bochner.cli.options import with_options
from bochner.cli.predict import predict
from bochner.cli.recommend import recommend
from bochner.cli.reproduce import reproduce
from bochner.cli.screen import wrapped
from bochner.version import __version__

app = typer.Typer(
    name="bochner",
    help="Kernel methods on millions of rows: which approximation suits your data, and models that use it.",
    epilog="Exit codes: 0 done, 1 unexpected, 2 a mistake in the command or the data, 3 a package is missing, "
    "130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # two columns instead of four, on 80 characters
    context_settings={"help_option_names": ["-h", "--help"]},
)


_UsageError: Any = typer.BadParameter.__base__  # that of click, or of the copy of click in typer


class Interrupted(Exception):  # noqa: N818
    """Ctrl-C, which the libraries of the command line would answer with a bare exit code."""


def _interruptible(command: Callable[..., int]) -> Callable[..., int]:
    @wraps(command)
    def stoppable(**options: object) -> int:
        try:
            return command(**options)
        except KeyboardInterrupt as stop:
            raise Interrupted(str(stop)) from None
        except BrokenPipeError:  # whoever read the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor does the end of Python write there
            return OK

    return stoppable


for command in (compare, fit, predict, recommend, reproduce, doctor, autotune):
    app.command()(_interruptible(with_options(command)))


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"bochner {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the program itself."""


def run(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; mistakes end in one line on standard error."""
    try:
        code = app(args=arguments, standalone_mode=False)
        return code if isinstance(code, int) else OK
    except typer.Exit as done:
        return int(done.exit_code)
    except Interrupted as stop:
        return _fail(str(stop) or "interrupted; nothing was written.", INTERRUPTED)
    except ImportError as error:
        return _fail(str(error), MISSING)
    except (ValueError, OSError) as error:
        return _fail(str(error), USAGE)
    except _UsageError as error:
        command = f"bochner {error.ctx.info_name}" if error.ctx is not None and error.ctx.parent else "bochner"
        return _fail(f"{error.format_message()} ({command} --help)", USAGE)
    except Exception:
        import traceback

        traceback.print_exc()
        return UNEXPECTED


def _fail(message: str, code: int) -> int:
    print(wrapped(f"bochner: {message}", sys.stderr), file=sys.stderr)
    return code
