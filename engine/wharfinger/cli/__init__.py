"""The command line: where everything is put together.

Each verb is one file, imported only when it is asked for: `wharf check` must not pay for the simulator. Output that people or
programs read goes to stdout and depends on nothing but the input (no times, no terminal width); progress and complaints go to stderr.

    exit code  0 clean · 1 findings, or pods or tests that failed · 2 usage, or a file that cannot be read or written
               70 an error in Wharfinger itself · 130 interrupted · 141 the reader of the output left
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from wharfinger.cli import arguments as words_of
from wharfinger.cli import streams
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.language import render
from wharfinger.language.diagnostics import PolicyError

VERBS: Mapping[str, str] = {
    "check": "wharfinger.cli.verbs.check",
    "fmt": "wharfinger.cli.verbs.fmt",
    "test": "wharfinger.cli.verbs.test",
    "dry-run": "wharfinger.cli.verbs.dry_run",
    "snapshot": "wharfinger.cli.verbs.snapshot",
    "explain": "wharfinger.cli.verbs.explain",
    "replay": "wharfinger.cli.verbs.replay",
    "run": "wharfinger.cli.verbs.run",
    "status": "wharfinger.cli.verbs.status",
    "top": "wharfinger.cli.verbs.top",
    "signals": "wharfinger.cli.verbs.signals",
    "config": "wharfinger.cli.verbs.config",
    "install": "wharfinger.cli.verbs.install",
    "bench": "wharfinger.cli.verbs.bench",
    "demo": "wharfinger.cli.verbs.demo",
    "version": "wharfinger.cli.verbs.version",
}
"""Verb to module, in the order of `--help`."""

BROKEN = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
READER_LEFT = 141  # 128 + SIGPIPE, likewise
TRACEBACK = "WHARF_TRACEBACK"


class Verbs(typer.core.TyperGroup):
    """A command group that imports a verb's module when the verb is used."""

    _names_only = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 — the signature is the group's
        """The verbs in the order of `--help`."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 — the signature is the group's
        """The command of a verb, or None when there is no such verb."""
        if cmd_name not in VERBS:
            return None
        if self._names_only:
            return typer.core.TyperCommand(cmd_name)
        module = _imported(VERBS[cmd_name])
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # which `wharfinger.__main__` wanted for as long as things are imported
            signal.signal(signal.SIGINT, signal.default_int_handler)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name)(module.command)
        return typer.main.get_command(single)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The verbs and options that begin so; by name alone, as importing every verb for its help would take seconds."""
        self._names_only = True
        return super().shell_complete(ctx, incomplete)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words that are left for the verb. UsageError for an empty one: it would be taken for this folder."""
        if not args and not ctx.resilient_parsing:
            sys.stderr.write(f"{ctx.get_help()}\n")
            ctx.exit(2)
        if "" in args and not ctx.resilient_parsing:
            before = args[args.index("") - 1] if args.index("") else "wharf"
            raise UsageError(f"the word after {before} is empty; is a variable of the shell not set?")
        return super().parse_args(ctx, words_of.repeated(args))

    def invoke(self, ctx: Any) -> Any:
        """The exit code of a verb; these two are caught here because typer would make codes of its own of them."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            return _reader_left()
        except KeyboardInterrupt:
            return INTERRUPTED
        return code


app = typer.Typer(
    cls=Verbs,
    add_completion=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Kubernetes scheduling decided by .policy files: check them, test them, and see where pods would go.",
)


def _version(asked: bool) -> None:
    if asked:
        importlib.import_module("wharfinger.cli.verbs.version").command()
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", "-V", is_eager=True, callback=_version, help="Print the version and exit.")] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one run of the command line; never raises for what a user can cause."""
    streams.prepare()
    group = typer.main.get_command(app)
    words = list(sys.argv[1:] if arguments is None else arguments)
    return _shielded(lambda: group.main(args=words, prog_name="wharf", standalone_mode=False))


def _imported(name: str) -> Any:
    """The module. It is imported without looks for garbage, which would take a sixth of the time and find next to none."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.enable()
        gc.freeze()


def _shielded(run: Callable[[], Any]) -> int:
    try:
        code = run()
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", INTERRUPTED)
    except PolicyError as error:
        sys.stderr.write(render.render(error.diagnostics, color=streams.colors(sys.stderr)))
        return error.exit_code
    except Exception as error:  # noqa: BLE001 — the last resort: whatever went wrong, people get a sentence
        return _complain(*_sentence(error))
    if code == INTERRUPTED:  # by us, or by typer while it reads the words
        return _complain("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _reader_left() -> int:
    """The exit code for a reader (head, less) that left. Python would complain when it flushes at exit, so what is left goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_LEFT


def _sentence(error: Exception) -> tuple[str, int]:
    """What to say of an error, and the exit code."""
    if isinstance(error, WharfingerError):
        return str(error), error.exit_code
    if isinstance(error, typer.TyperException):
        path = getattr(getattr(error, "ctx", None), "command_path", "wharf")
        return (
            f"{' '.join(error.format_message().split()).removesuffix('.').replace('Value error, ', '')}. Try '{path} --help'.",
            error.exit_code,
        )
    if isinstance(error, OSError):
        place = error.filename or ("the output" if error.errno == errno.ENOSPC else "")  # a full disk behind `> FILE`
        return f"{place}: {error.strerror}" if place else str(error), 2
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    return f"internal error: {type(error).__name__}: {error}; set {TRACEBACK}=1 to see where, and please report it", BROKEN


def _complain(sentence: str, code: int) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"wharf: {sentence}\n")
    return code
