"""The registry of plugins.

Built-in plugins are the classes in the modules of `framework/plugins/`, in the order of their records (`builtins.catalogue`). Plugins of
other packages announce themselves by an entry point in the group `wharfinger.plugins` whose value is the plugin class.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import metadata

from wharfinger.builtins.catalogue import PLUGINS
from wharfinger.errors import PluginContractError, UnknownObject
from wharfinger.framework import extension, plugins
from wharfinger.language.report import wording

ENTRY_POINT_GROUP = "wharfinger.plugins"

DEFAULT_ORDER = tuple(PLUGINS)
"""The names of the built-in plugins, in the order in which a chain runs them."""


class Registry(Mapping[str, type[extension.Plugin]]):
    """Plugin classes by name, in the order in which a chain runs them: built-ins first, then the others by name."""

    def __init__(self, classes: Iterable[tuple[str, type[extension.Plugin]]]) -> None:
        """A registry of (origin, class) pairs; errors about two classes with one name mention the origins."""
        found: dict[str, tuple[str, type[extension.Plugin]]] = {}
        for origin, plugin in classes:
            if "/" in plugin.name:
                raise PluginContractError(
                    f'plugin {plugin.name} ({origin}): the name of a plugin has no "/"; rules of policies are called policy/rule'
                )
            if plugin.name in found:
                raise PluginContractError(f"plugin {plugin.name} is registered twice: by {found[plugin.name][0]} and by {origin}")
            found[plugin.name] = origin, plugin
        self._origins = {name: found[name][0] for name in sorted(found, key=_rank)}
        self._classes = {name: found[name][1] for name in self._origins}

    def __getitem__(self, name: str) -> type[extension.Plugin]:
        """The plugin class of that name; UnknownObject with a suggestion if there is none."""
        try:
            return self._classes[name]
        except KeyError:
            raise UnknownObject(no_such_plugin(name, self._classes)) from None

    def __contains__(self, name: object) -> bool:  # Mapping's own would build the message of an UnknownObject
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __str__(self) -> str:
        return "\n".join(
            f"{name}  {', '.join(extension.points(plugin))}  ({self._origins[name]})" for name, plugin in self._classes.items()
        )


def no_such_plugin(name: str, names: Collection[str]) -> str:
    """The sentence about a plugin that does not exist: with the nearest of the names there are, or with all of them."""
    near = wording.closest(name, names)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}; others can be installed as Python packages"
    return f"there is no plugin {name}; {hint}"


def built_in() -> list[tuple[str, type[extension.Plugin]]]:
    """(module name, class) for every plugin class defined in `framework/plugins/`."""
    found = []
    for module_name in sorted(module.name for module in pkgutil.walk_packages(plugins.__path__, f"{plugins.__name__}.")):
        module = importlib.import_module(module_name)
        found += [
            (module.__name__, member) for member in vars(module).values() if _is_plugin(member) and member.__module__ == module.__name__
        ]
    for origin, plugin in found:
        if plugin.name not in DEFAULT_ORDER:
            raise PluginContractError(f"built-in plugin {plugin.name} ({origin}) has no record in builtins.catalogue.PLUGINS")
    return found


def third_party() -> list[tuple[str, type[extension.Plugin]]]:
    """(entry point, class) for every plugin that an installed package announces; `PluginContractError` names one that cannot be used."""
    entries = sorted(metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: (entry.name, entry.value))
    return [(f"entry point {entry.name} = {entry.value}", _load(entry)) for entry in entries]


@lru_cache(maxsize=1)
def default_registry() -> Registry:
    """The registry of all built-in and installed plugins; found once per process."""
    return Registry([*built_in(), *third_party()])


def _load(entry: metadata.EntryPoint) -> type[extension.Plugin]:
    origin = f"entry point {entry.name} = {entry.value} in group {ENTRY_POINT_GROUP}"
    try:
        plugin = entry.load()
    except Exception as error:  # a third-party module may raise anything while it is imported
        raise PluginContractError(f"{origin} cannot be loaded: {type(error).__name__}: {error}") from error
    if not _is_plugin(plugin):
        raise PluginContractError(
            f"{origin} is not a plugin: expected a concrete subclass of wharfinger.framework.extension.Plugin with a `name`"
        )
    checked: type[extension.Plugin] = plugin
    return checked


def _is_plugin(member: object) -> bool:
    return (
        inspect.isclass(member)
        and issubclass(member, extension.Plugin)
        and not inspect.isabstract(member)
        and isinstance(getattr(member, "name", None), str)
        and bool(extension.points(member))
    )


def _rank(name: str) -> tuple[int, str]:
    return (DEFAULT_ORDER.index(name), "") if name in DEFAULT_ORDER else (len(DEFAULT_ORDER), name)
