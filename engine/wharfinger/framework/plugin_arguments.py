"""`pluginConfig` of a profile: the arguments of each plugin, checked by the plugin itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from wharfinger.errors import WharfingerError
from wharfinger.framework import extension, faults
from wharfinger.framework.registry import DEFAULT_ORDER, Registry
from wharfinger.framework.scheduler_configuration import API_VERSION, PluginConfig
from wharfinger.language import suggest


def read_arguments(
    entries: Sequence[PluginConfig], at: faults.Path, registry: Registry, found: faults.Findings
) -> dict[str, dict[str, Any]]:
    """The arguments by plugin name."""
    arguments: dict[str, dict[str, Any]] = {}
    for index, entry in enumerate(entries):
        here = (*at, index)
        if entry.name in arguments:
            found.fault((*here, "name"), f"{entry.name} is configured already; join the two")
        elif entry.name in registry:
            arguments[entry.name] = _of_plugin(registry[entry.name], entry.args, (*here, "args"), found)
        else:
            unknown_plugin(entry.name, (*here, "name"), registry, found)
    return arguments


def unknown_plugin(name: str, path: faults.Path, registry: Registry, found: faults.Findings) -> None:
    """None; a note about a plugin of kube-scheduler that has nothing to do here, a fault about any other."""
    if name in DEFAULT_ORDER:
        found.note(path, f"{name} does not run here; see the list of plugins")
        return
    near = suggest.closest(name, registry)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(registry)}; others can be installed as Python packages"
    found.fault(path, f"there is no plugin {name}; {hint}")


def _of_plugin(plugin: type[extension.Plugin], args: dict[str, Any], at: faults.Path, found: faults.Findings) -> dict[str, Any]:
    """The arguments without their type, after asking the plugin whether it can work with them."""
    for name, expected in (("apiVersion", API_VERSION), ("kind", f"{plugin.name}Args")):
        if args.get(name, expected) != expected:
            found.fault((*at, name), f"expected {expected}, not {args[name]!r}")
    values = {name: value for name, value in args.items() if name not in ("apiVersion", "kind")}
    try:
        plugin(plugin.arguments_model.model_validate(values))
    except ValidationError as error:
        found.faults += faults.sentences(error, plugin.arguments_model, at)
    except WharfingerError as error:
        found.fault(at, str(error))
    return values
