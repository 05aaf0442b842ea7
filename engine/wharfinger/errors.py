"""The exceptions of Wharfinger, and functions that make foreign text safe for messages.

Everything a user can cause derives from `WharfingerError`, so a shell can print one sentence and leave with the right exit code
instead of showing a traceback:

    WharfingerError
    ├── PolicyError          a policy does not compile; carries every diagnostic (language/report/diagnostics.py)
    ├── InvalidObject        a Kubernetes object or quantity cannot be read; names file, index and field
    ├── StaleSnapshot        a snapshot was read after the state behind it moved on
    ├── UnknownObject        a node, pod, rule or plugin that was asked for by name does not exist
    ├── PluginContractError  a plugin returned something of the wrong shape, dtype or range; names the offender
    ├── PluginFault          a plugin raised something; names the plugin and its method
    ├── CycleAborted         a filter had an error instead of a verdict
    └── UsageError           flags that do not go together, a file that cannot be read or written
"""

from __future__ import annotations

import importlib.util
import re


class WharfingerError(Exception):
    """Root of all expected failures; `str()` is one sentence for a person."""

    exit_code = 1


class InvalidObject(WharfingerError):
    """A Kubernetes object, or a field of one, cannot be read."""

    exit_code = 2


class StaleSnapshot(WharfingerError):
    """The state of a snapshot has changed since."""


class UnknownObject(WharfingerError):
    """A name that does not exist."""

    exit_code = 2


class PluginContractError(WharfingerError):
    """A plugin broke the contract of its extension point."""


class PluginFault(WharfingerError):
    """A method of a plugin raised an exception, or returned a value that its contract does not allow; `error` is the reason."""

    def __init__(self, plugin: str, method: str, error: Exception) -> None:
        self.plugin = plugin
        self.method = method
        self.error = error
        super().__init__(f"plugin {plugin} failed in {method}: {type(error).__name__}: {error}")


class CycleAborted(WharfingerError):
    """A filter had an error instead of a verdict, so the attempt to place a pod ended without an answer."""


class UsageError(WharfingerError):
    """A command was called in a way that cannot work."""

    exit_code = 2


def missing_extra(what: str, extra: str) -> UsageError:
    """The error for packages that are not installed: what needs which, and how an extra is added where `wharf` is installed already."""
    package = f"'wharfinger[{extra}]'"
    return UsageError(f"{what}: pip install {package}; with pipx: pipx runpip wharfinger install {package}")


def need_extra(package: str, what: str, extra: str) -> None:
    """Raise `missing_extra` unless a package is installed. Does not import it, so that a command can ask before any other work."""
    if importlib.util.find_spec(package) is None:
        raise missing_extra(what, extra)


def printable(text: str) -> str:
    """The text with a space for each character of white space, and U+FFFD for every other one that cannot be seen."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "\N{REPLACEMENT CHARACTER}" for letter in text)


_NOT_PLAIN = re.compile(r"[^\n -~]")


def with_escapes(written: str) -> str:
    r"""JSON with escapes (`\u202e`) for characters that cannot be seen.

    Or YAML that has such characters only in double quotes, and none above U+FFFF.
    """
    return _NOT_PLAIN.sub(lambda found: found[0] if found[0].isprintable() else _escape(found[0]), written)


def _escape(letter: str) -> str:
    """The escapes of a character: one for each of its UTF-16 code units."""
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def on_one_line(text: str, limit: int | None = None) -> str:
    """The text on one line, without control characters, cut to `limit` characters (None: not cut)."""
    short = text if limit is None or len(text) <= limit else text[:limit] + "…"
    return short if short.isprintable() else printable(short).strip()


def printable_lines(text: str) -> str:
    """The text with each of its lines made `printable`."""
    return "\n".join(map(printable, text.splitlines()))
