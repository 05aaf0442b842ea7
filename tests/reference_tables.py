"""The tables of `grammar/LANGUAGE.md`, made from the records that checker and compiler read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from wharfinger.builtins import CATALOGUE
from wharfinger.language.parse import grammar
from wharfinger.language.semantics.catalogue import SOURCES, Attribute, Function, Option, Parameter, Subject
from wharfinger.language.semantics.types import NUMERIC, Kind
from wharfinger.language.test_steps import DEVICE_FIELDS, NODE_FIELDS, POD_FIELDS, Field, Many

SECTION = re.compile(r"(<!-- begin (?P<name>[\w ]+) -->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)


def filled(text: str) -> str:
    """A page with the tables between its markers written again."""
    return SECTION.sub(lambda found: f"{found[1]}\n{TABLES[found['name']]()}\n\n{found[3]}", text)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [list(head), ["---"] * len(list(head)), *map(list, rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def attributes(subjects: tuple[Subject, ...]) -> str:
    """The attributes of a pod (and what only placed pods have) or of a node."""
    first, *others = subjects
    rows = [_attribute(attribute) for attribute in CATALOGUE.attributes(first)]
    known = {attribute.path for attribute in CATALOGUE.attributes(first)}
    for subject in others:
        rows += [_attribute(attribute) for attribute in CATALOGUE.attributes(subject) if attribute.path not in known]
    return table(("attribute", "type", ""), rows)


def _attribute(attribute: Attribute) -> tuple[str, str, str]:
    name = f"{attribute.subject.word}.{attribute.path}"
    labels = attribute.type.kind is Kind.LABELS
    written = f'`{name}`, `{name}["key"]`' if labels else f'`{name}["key"]`' if attribute.keyed else f"`{name}`"
    return written, f"`{attribute.type}`, `string?`" if labels else f"`{attribute.type}`", attribute.doc


def functions() -> str:
    """The functions with their signatures and an example each."""
    return table(("function", "", "example"), ((_signature(f), f.doc, f"`{f.example}`") for f in CATALOGUE.functions()))


def _signature(function: Function) -> str:
    name, _, member = function.name.partition(".")
    parts = [_parameter(parameter) for parameter in function.parameters]
    parts += [f"{_parameter(function.variadic)}, …"] if function.variadic else []
    parts += ["resource: weight, …" if key == "*" else f"{key}: {_kinds(value)}" for key, value in function.named.items()]
    return f"`{name}({', '.join(parts)}){f'.{member}' if member else ''}`"


def _parameter(parameter: Parameter) -> str:
    kinds = _kinds(parameter)
    shown = parameter.name if kinds == parameter.name or not kinds else f"{parameter.name}: {kinds}"
    return shown if parameter.required else f"[{shown}]"


def _kinds(parameter: Parameter) -> str:
    if parameter.kinds == NUMERIC:
        return "any number"
    if parameter.kinds == {Kind.NUMBER, Kind.COUNT, Kind.PERCENT}:
        return "number"
    return " or ".join(sorted(kind.value for kind in parameter.kinds))


def plugins() -> str:
    """The score plugins that `base kubernetes` reweighs."""
    rows = (
        (f"`{name}`", ", ".join(f"`{key}`" for key in sorted(plugin.arguments)) or "none")
        for name, plugin in sorted(CATALOGUE.score_plugins().items())
    )
    return table(("plugin", "arguments"), rows)


def metric_options() -> str:
    """The options of metric sources."""
    names = dict.fromkeys(name for source in SOURCES.values() for name in source.options)
    rows = []
    for name in names:
        option = next(source.options[name] for source in SOURCES.values() if name in source.options)
        sources = ", ".join(f"`{source.name}`" for source in SOURCES.values() if name in source.options)
        rows.append((f"`{name}`", option.kind.value, _default(option), sources))
    return table(("option", "type", "default", "of"), rows)


def _default(option: Option) -> str:
    if option.default is None:
        return ""
    if option.kind is Kind.DURATION:
        return f"`{option.default:g}s`"
    return f"`{option.default * 100:g}%`" if option.kind is Kind.PERCENT else f'`"{option.default}"`'


def test_fields() -> str:
    """The fields of nodes and pods of tests."""
    rows = [
        (f"`{kind}`", f"`{name}`", _field(field), field.doc)
        for kind, known in (("node", NODE_FIELDS), ("device", DEVICE_FIELDS), ("pod", POD_FIELDS))
        for name, field in known.items()
    ]
    return table(("of a", "field", "value", ""), rows)


test_fields.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for a test


def _field(field: Field) -> str:
    form = field.form.value + (f": {', '.join(f'`{choice}`' for choice in sorted(field.choices))}" if field.choices else "")
    if field.many is Many.DEVICES:
        return "list of devices"
    if field.many is Many.LIST:
        return f"list of {form.removeprefix('an ').removeprefix('a ')}"
    if field.many is Many.BY_KEY:
        keys = " or ".join(f"`{key}`" for key in sorted(field.keys)) or "key"
        return f"{form} by {keys}"
    return form


def words() -> str:
    """The words that cannot be names, and those that mean something only in their place."""
    terminals = grammar.terminals()
    reserved = " ".join(f"`{word}`" for word in sorted(terminals.reserved))
    free = " ".join(f"`{word}`" for word in sorted(set(terminals.keywords) - terminals.reserved))
    return f"Reserved: {reserved}.\n\nWords of the language that may also be names: {free}."


TABLES: dict[str, Callable[[], str]] = {
    "pod attributes": lambda: attributes((Subject.POD, Subject.ITEM)),
    "node attributes": lambda: attributes((Subject.NODE,)),
    "device attributes": lambda: attributes((Subject.DEVICE,)),
    "functions": functions,
    "plugins": plugins,
    "metric options": metric_options,
    "test fields": test_fields,
    "words": words,
}
