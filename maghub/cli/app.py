"""The Typer application and its error handling; commands live in the modules beside this one."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated

import typer

from maghub import __version__
from maghub.cli import audit as audit_command
from maghub.cli import clegr as clegr_commands
from maghub.cli import datasets as dataset_commands
from maghub.cli import demo as demo_command
from maghub.cli import encoding as encoding_commands
from maghub.cli import hub as hub_commands
from maghub.cli import mkg as mkg_commands
from maghub.cli import report as report_command
from maghub.cli import run as run_command
from maghub.cli import search as search_commands
from maghub.cli.output import print_error
from maghub.errors import MaghubError
from maghub.progress import show_progress

app = typer.Typer(
    name="maghub",
    help="Multimodal-attributed graphs: data in one line, honest baselines.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
_options = {"debug": False}


def _version(value: bool) -> None:
    if value:
        print(f"maghub {__version__}")
        raise typer.Exit


@app.callback()
def _global(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    _options["debug"] = debug
    show_progress(True)
    _quiet(debug)


def _quiet(debug: bool) -> None:
    """Leave the terminal to our own bars and errors; libraries stay silent unless --debug."""
    if debug:
        return
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=UserWarning)


dataset_commands.register(app)
encoding_commands.register(app)
audit_command.register(app)
clegr_commands.register(app)
hub_commands.register(app)
mkg_commands.register(app)
search_commands.register(app)
run_command.register(app)
report_command.register(app)
demo_command.register(app)


def main() -> None:
    """Entry point: one line for every error, a traceback only with --debug."""
    _options["debug"] = "--debug" in sys.argv
    try:
        app()
    except MaghubError as error:
        _fail(error, error.line())
    except KeyboardInterrupt as error:
        _fail(error, "interrupted; nothing half-written was left", code=130)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        _fail(error, f"{type(error).__name__}: {text} (this is a bug; run with --debug)")


def _fail(error: BaseException, message: str, code: int = 1) -> None:
    if _options["debug"]:
        raise error
    print_error(message)
    sys.exit(code)
