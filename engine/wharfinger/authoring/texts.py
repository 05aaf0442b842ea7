"""Texts about names: their documentation, how they are called, and their types with units."""

from __future__ import annotations

import math

from wharfinger.authoring import vocabulary
from wharfinger.authoring.document import Document
from wharfinger.authoring.words import Word
from wharfinger.language.check.rules import possible
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Attribute, Function, Parameter
from wharfinger.language.semantics.types import NUMERIC, Kind, Type


def type_with_unit(type_: Type) -> str:
    """A type as a policy writes it, with what its numbers count."""
    unit = vocabulary.BASE_UNITS.get(type_.kind)
    missing = ", may be missing" if type_.optional else ""
    return f"{type_} ({unit}{missing})" if unit else f"{type_}{' (may be missing)' if missing else ''}"


def attribute_text(attribute: Attribute) -> str:
    """What an attribute is, as Markdown."""
    return f"{attribute.doc}\n\n{type_with_unit(attribute.type)}"


def called(function: Function) -> str:
    """How a function is called, with the kinds of its parameters."""
    name, dot, result = function.name.partition(".")
    return f"{name}({', '.join(parameters(function))}){dot}{result}"


def parameters(function: Function) -> list[str]:
    """The parameters of a function as they are shown in its signature."""
    shown = [_parameter(each) for each in function.parameters]
    shown += [f"{_parameter(function.variadic)}, …"] if function.variadic else []
    return shown + ["resource: weight, …" if name == "*" else f"{name}: {_kinds(row)}" for name, row in function.named.items()]


def _parameter(parameter: Parameter) -> str:
    kinds = _kinds(parameter)
    text = parameter.name if kinds == parameter.name else f"{parameter.name}: {kinds}"
    return text if parameter.required else f"[{text}]"


def _kinds(parameter: Parameter) -> str:
    if not parameter.kinds:
        return "any"
    if parameter.kinds >= NUMERIC - {Kind.TIME}:
        return "any number"
    kinds = sorted(kind.value for kind in parameter.kinds)
    return "number" if set(kinds) == {"count", "number", "percent"} else " or ".join(kinds)


def function_text(function: Function) -> str:
    """What a function does, as Markdown with an example."""
    return f"```policy\n{called(function)}\n```\n{function.doc}\n\n```policy\n{function.example}\n```"


def range_text(document: Document, expr: typed.Expr) -> str:
    """The numbers that an expression may have, in words; "" where nothing is known."""
    if expr.type.kind not in NUMERIC or expr.type.kind is Kind.TIME:
        return ""
    interval = document.checked.notes.intervals.of(expr)
    return "" if all(map(math.isinf, interval)) else possible(interval, expr.type.kind)


def short(document: Document, word: Word) -> str:
    """What a declared name is, in a few words: its keyword, and its type where it is known."""
    binding = document.declarations.checked.notes.names.get(word.name)
    if binding is None or binding.reference is None:
        return word.role.value
    found = binding.reference(binding.span)
    return word.role.value if found.type.kind is Kind.UNKNOWN else f"{word.role.value}: {found.type}"
