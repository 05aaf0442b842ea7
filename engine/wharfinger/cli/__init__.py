"""The command line `wharf`: `main` runs one command of `cli/commands` and returns its exit code.

Each command is a function in a module of its task. It is imported only when it is used: `wharf check` must not pay for the simulator.
Results go to stdout and depend on nothing but the input (no times, no terminal width). Progress, warnings and errors go to stderr.
Start with `main`.

    exit code  0 clean · 1 findings, or pods or tests that failed · 2 usage, or a file that cannot be read or written
               70 an error in Wharfinger itself · 130 interrupted · 141 the reader of the output closed the pipe
"""

from __future__ import annotations

import ast
import errno
import gc
import importlib
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from wharfinger.cli import commands, completion, flag_values, options, streams
from wharfinger.errors import UnknownObject, UsageError, WharfingerError, printable, printable_lines
from wharfinger.language.report import render, wording
from wharfinger.language.report.diagnostics import PolicyError

FOLDER = Path(*commands.__path__)
COMMAND = re.compile(r"^def wharf_(\w+)\(", re.MULTILINE)


def _modules(task: str) -> dict[str, str]:
    """The module of each command of a task. The sources are searched and not imported."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (FOLDER / task).glob("*.py")}
    found = {command.replace("_", "-"): module for module, source in sources.items() for command in COMMAND.findall(source)}
    return {command: f"{commands.__name__}.{task}.{found[command]}" for command in sorted(found)}


TASKS = {task: _modules(task) for task in commands.TASKS}
"""The commands of each task, with their modules."""
COMMANDS = {command: module for found in TASKS.values() for command, module in found.items()}
"""The module of each command."""

BROKEN = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
BROKEN_PIPE = 141  # 128 + SIGPIPE, as a shell reports it
SHOWN_BEFORE = 20  # characters before one that is not UTF-8, in a message
MAX_HELP_LENGTH = 200  # characters: a whole sentence, which `--help` wraps


class CommandGroup(typer.core.TyperGroup):
    """A command group that imports the module of a command only to run it. Importing all of them would take seconds of CPU."""

    _described_only = False
    _commands: dict[str, Any] | None = None

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, with those that typer adds."""
        return flag_values.taken_if_plain(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 — the signature is the group's
        """The commands in the order of `--help`."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 — the signature is the group's
        """The command of that name; None when there is none."""
        if cmd_name not in COMMANDS:
            return None
        if self._described_only:
            return typer.core.TyperCommand(cmd_name, help=_help_of(cmd_name))
        if self._commands is None:
            self._commands = {}
        if cmd_name not in self._commands:
            self._commands[cmd_name] = _command(cmd_name)
        return self._commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name that the words begin with, its command, and the other words. UsageError with the nearest name where there is none."""
        near = None if args[0] in COMMANDS else wording.closest(args[0], COMMANDS)
        if near is not None and not ctx.resilient_parsing:
            raise UsageError(f"there is no command {args[0]!r}; did you mean `wharf {near}`?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The commands and options that begin like this."""
        self._described_only = True
        return super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by task, each with the first sentence of its help, and an example of each task."""
        self._described_only = True
        widest = max(map(len, COMMANDS))
        for task, found in TASKS.items():
            title, example = _title_and_example(task)
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{command:{widest}}", self.get_command(ctx, command).get_short_help_str(MAX_HELP_LENGTH)) for command in found]
                )
                formatter.write(f"\n{'':{formatter.current_indent}}$ {example}\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words for the command. UsageError for an empty word or value, which would mean the current folder."""
        if not args and not ctx.resilient_parsing:
            sys.stderr.write(f"{ctx.get_help()}\n")
            ctx.exit(2)
        if "" in args and not ctx.resilient_parsing:
            before = args[args.index("") - 1] if args.index("") else "wharf"
            raise UsageError(f"the word after {before} is empty; is a variable of the shell not set?")
        before_end = args[: args.index("--")] if "--" in args else args
        empty = next((word for word in before_end if re.fullmatch(r"--[^=]+=", word)), None)
        if empty is not None and not ctx.resilient_parsing:
            raise UsageError(f"the value of {empty[:-1]} is empty; is a variable of the shell not set?")
        if args and args[0] in COMMANDS:
            args = [args[0], *options.repeated(args[1:], options.words_of(self.get_command(ctx, args[0])))]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """The exit code of a command. Two exceptions are caught here because typer would turn them into other codes."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            return _closed_pipe_code()
        except KeyboardInterrupt:
            return INTERRUPTED
        return code


class Command(typer.core.TyperCommand):
    """One command of `wharf`. Its numbers are written as `user_input` has them, which is stricter than typer."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, with those that typer adds."""
        return flag_values.taken_if_plain(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The remaining words. Adds this command to an error about an option without a value: it names the right `--help` then."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise


app = typer.Typer(
    cls=CommandGroup,
    add_completion=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A Kubernetes scheduler whose decisions are .policy files. Exit codes: 0 success, 1 findings, 2 wrong usage or unreadable input.",
)


def _version(requested: bool) -> None:
    if requested:
        _function("version")()
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", "-V", is_eager=True, callback=_version, help="Print the version and exit.")] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line once and return the exit code. An error of the user is never an exception."""
    streams.prepare()
    completion.replace_scripts()
    group = typer.main.get_command(app)
    words = list(sys.argv[1:] if arguments is None else arguments)
    with completion.translated():
        return _exit_code(lambda: group.main(args=words, prog_name="wharf", standalone_mode=False))


def _title_and_example(task: str) -> tuple[str, str]:
    """The heading of a task in `--help`, and an example: the docstring of its folder."""
    title, example = (ast.get_docstring(ast.parse((FOLDER / task / "__init__.py").read_text(encoding="utf-8"))) or "").split("\n\n")
    return title.rstrip("."), example


def _help_of(command: str) -> str | None:
    """The docstring of the function of a command, which is read and not imported."""
    source = FOLDER.joinpath(*COMMANDS[command].split(".")[-2:]).with_suffix(".py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    return next(ast.get_docstring(function) for function in functions if function.name == _name(command))


def _name(command: str) -> str:
    """The name of the function of a command."""
    return f"wharf_{command.replace('-', '_')}"


def _function(command: str) -> Callable[..., int]:
    """The function of a command; its module is imported."""
    found: Callable[..., int] = getattr(_imported(COMMANDS[command]), _name(command))
    return found


def _command(command: str) -> Any:
    """A command as typer runs it."""
    function = _function(command)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as `wharfinger.__main__` sets it until the imports are done
        signal.signal(signal.SIGINT, signal.default_int_handler)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(command, cls=Command)(function)
    return typer.main.get_command(single)


def _imported(name: str) -> Any:
    """Import a module without garbage collection, which would take a sixth of the time and find almost nothing."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.enable()
        gc.freeze()


def _exit_code(run: Callable[[], Any]) -> int:
    try:
        code = run()
    except (KeyboardInterrupt, typer.Abort):
        return _print_error("interrupted", INTERRUPTED)
    except PolicyError as error:
        sys.stderr.write(render.render(error.diagnostics, color=streams.colors(sys.stderr)))
        return error.exit_code
    except Exception as error:  # noqa: BLE001 — the last resort: any error is reported as a sentence
        return _print_error(*_sentence(error))
    if code == INTERRUPTED:  # by `invoke`, or by typer while it parses the words
        return _print_error("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _closed_pipe_code() -> int:
    """The exit code when the reader (head, less) has closed the pipe. Python flushes at exit and would fail, so the rest is discarded."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _sentence(error: Exception) -> tuple[str, int]:
    """The message for an error, and the exit code."""
    if isinstance(error, UnknownObject):
        return printable(str(error)), error.exit_code  # it repeats names of objects
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
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:  # as Python reads words that are not UTF-8
        return f"{printable(error.object[max(0, error.start - SHOWN_BEFORE) : error.end])}: not UTF-8", 2
    if os.environ.get(streams.TRACEBACK):
        traceback.print_exception(error)
    return f"internal error: {type(error).__name__}: {error}; set {streams.TRACEBACK}=1 to see where, and please report it", BROKEN


def _print_error(sentence: str, code: int) -> int:
    """Print the sentence on stderr, after all output on stdout, and return the exit code. The reader of stdout may be gone."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _closed_pipe_code()
    sys.stderr.write(f"wharf: {printable_lines(sentence)}\n")
    return code
