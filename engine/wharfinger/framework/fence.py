"""A fence around plugins of other packages: whatever one of their methods raises is a fault of that plugin, by name.

The chain puts it up around each plugin that is not built in, on every method that an extension point calls; the methods are read from the
extension points, so that a new one is fenced as well. What happens then depends on who asked: the attempt of the pod ends with an error, a
pod behind a gate waits, an event that nobody could judge wakes the pod. The fault never gets further than that.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from wharfinger.errors import PluginContractError, PluginFault
from wharfinger.framework import extension, plugins
from wharfinger.framework.ports import BindFailed
from wharfinger.framework.verdict import Reason

P = TypeVar("P", bound=extension.Plugin)

FENCED = "_fenced"

ANSWERS: Mapping[str, tuple[type, ...]] = {
    "may_help": (bool, np.bool_),
    "pre_enqueue": (Reason, type(None)),
    "post_filter": (extension.PostFilterOutcome,),
    "reserve": (Reason, type(None)),
    "permit": (extension.Permission,),
    "pre_bind": (Reason, type(None)),
    "bind": (Reason, bool),
}
"""What a method may answer, where nobody looks at the answer more closely (`contract` checks verdicts and scores)."""


def calls() -> Mapping[str, tuple[type[extension.Plugin], Callable[..., Any]]]:
    """Every method that the framework calls of a plugin, by name: the extension point's class and the method it has there."""
    bases: tuple[type[extension.Plugin], ...] = (extension.Plugin, *extension.POINTS.values())
    return {
        name: (base, method)
        for base in bases
        for name, method in inspect.getmembers(base, inspect.isfunction)
        if name in vars(base) and not name.startswith("_")
    }


def is_foreign(plugin: extension.Plugin) -> bool:
    """Whether a plugin is not one of the built-in ones."""
    return not type(plugin).__module__.startswith(f"{plugins.__name__}.")


def fenced(plugin: P) -> P:
    """The plugin itself: what its methods raise is a `PluginFault` from now on, and so is an answer of the wrong type.

    Built-in plugins stay as they are, and methods that a plugin does not override, which somebody may look for.
    """
    if is_foreign(plugin) and FENCED not in vars(plugin):
        object.__setattr__(plugin, FENCED, True)
        for name, (base, method) in calls().items():
            if isinstance(plugin, base) and getattr(type(plugin), name) is not method:
                wrap = _awaited if inspect.iscoroutinefunction(method) else _called
                object.__setattr__(plugin, name, wrap(plugin.name, name, getattr(plugin, name)))
    return plugin


def _called(plugin: str, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    expected = ANSWERS.get(name)

    @functools.wraps(method)
    def call(*arguments: Any) -> Any:
        try:
            answer = method(*arguments)
        except Exception as error:
            raise _fault(plugin, name, error) from error
        if expected is not None and not isinstance(answer, expected):
            raise _wrong(plugin, name, answer)
        return answer

    return call


def _awaited(plugin: str, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    expected = ANSWERS.get(name)

    @functools.wraps(method)
    async def call(*arguments: Any) -> Any:
        try:
            answer = await method(*arguments)
        except BindFailed:  # what binding may say
            raise
        except Exception as error:
            raise _fault(plugin, name, error) from error
        if expected is not None and not isinstance(answer, expected):
            raise _wrong(plugin, name, answer)
        return answer

    return call


def _fault(plugin: str, name: str, error: Exception) -> PluginFault:
    """The fault that an error is; one that was found further in stays what it is."""
    return error if isinstance(error, PluginFault) else PluginFault(plugin, name, error)


def _wrong(plugin: str, name: str, answer: Any) -> PluginFault:
    expected = " or ".join("None" if kind is type(None) else kind.__name__ for kind in ANSWERS[name])
    return PluginFault(plugin, name, PluginContractError(f"it returned {type(answer).__name__}, not {expected}"))
