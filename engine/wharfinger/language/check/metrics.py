"""`metric name: type = prometheus('query', …)`: the options of a metric and their allowed values.

The source is not a function of the language: it is a declaration of where samples come from and how old they may be. Its options are a
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.language import ast
from wharfinger.language.check.context import Context
from wharfinger.language.check.expressions.values import literal_of
from wharfinger.language.report.codes import Code
from wharfinger.language.report.wording import listed
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import FRESHNESS, SOURCES, MetricSource, Option
from wharfinger.language.semantics.types import Kind, Type


def metric_of(context: Context, item: ast.Metric, type_: Type, name: str) -> typed.Metric | None:
    """The typed metric, or None after reporting why its declaration is wrong."""
    source = item.source
    record = SOURCES.get(source.function)
    if record is None:
        near = context.closest(source.function, SOURCES)
        help_ = f"did you mean `{near}`?" if near else f"sources are {listed(SOURCES)}"
        context.error(
            Code.P603, f"there is no source `{source.function}`", source.function_span, label="unknown source", help=help_, suggestion=near
        )
        return None
    if not _may_query(context, source, record):
        return None
    options = record.options
    query = _query(context, item, type_, record)
    given = _options(context, source, options)
    if query is None or given is None:
        return None
    values = {key: given.get(key, option.default) for key, option in options.items()}
    if "refresh" not in given:
        values["refresh"] = max(options["refresh"].low, min(values["refresh"], values["max_age"] / 2))
    if values["refresh"] > values["max_age"]:
        message = f"`refresh` of {values['refresh']:.10g}s is longer than `max_age` of {values['max_age']:.10g}s"
        help_ = "a sample has to last until the next one comes; best for several"
        context.error(Code.P603, message, source.span, label="too old before the next one comes", help=help_)
        return None
    return typed.Metric(
        name=name,
        policy="",  # known where all declarations are
        span=item.name_span,
        type=type_.maybe(),
        source=source.function,
        query=query,
        options={key: value for key, value in values.items() if key not in FRESHNESS and value is not None},
        refresh=values["refresh"],
        max_age=values["max_age"],
        min_coverage=values["min_coverage"],
        window=values["window"],
    )


def _may_query(context: Context, source: ast.Call, record: MetricSource) -> bool:
    """True if a policy of this authority may ask that source; reports it if not."""
    if not context.authority.restricted:
        return True
    what = f"`{record.name}`"
    if record.has_servers:
        named = next((a.value for a in source.arguments if a.name == "server"), None)
        server = named.value if isinstance(named, ast.String) else record.options["server"].default
        if server in context.authority.servers:
            return True
        what = f'the server "{server}"'
    help_ = "administrators of the cluster can allow a server with `tenantServers`, or share the metric in a library"
    context.error(Code.P802, f"policies of a namespace may not query {what}", source.span, label="not allowed", help=help_)
    return False


def _query(context: Context, item: ast.Metric, type_: Type, record: MetricSource) -> str | None:
    positional = [a for a in item.source.arguments if a.name is None and a.to is None]
    if len(positional) != 1 or not isinstance(positional[0].value, ast.String) or not positional[0].value.value.strip():
        span = positional[min(1, len(positional) - 1)].span if positional else item.source.span
        context.error(Code.P603, f"`{record.name}` takes {record.argument} and then options by name", span, label="does not fit")
        return None
    query = positional[0].value
    if record.resources is None:
        return query.value
    kind = record.resources.get(query.value)
    if kind is None or kind is not type_.kind:
        message = (
            f"`{record.name}` offers {record.argument}"
            if kind is None
            else f'`{record.name}("{query.value}")` is {kind.value}, not {type_.kind.value}'
        )
        context.error(Code.P603, message, query.span, label="does not fit")
        return None
    return query.value


def _options(context: Context, source: ast.Call, options: Mapping[str, Option]) -> dict[str, Any] | None:
    """The options that were given, by name; None when one is wrong."""
    found: dict[str, Any] = {}
    faulty = False
    for argument in source.arguments:
        if argument.name is None:
            faulty = faulty or argument.to is not None
            continue
        option = options.get(argument.name)
        if option is None or argument.name in found:
            _no_option(context, source, argument, options)
            faulty = True
            continue
        value = _option(context, source, argument, option)
        faulty = faulty or value is None
        found[argument.name] = value.value if value is not None else None
    return None if faulty else found


def _no_option(context: Context, source: ast.Call, argument: ast.Argument, options: Mapping[str, Option]) -> None:
    if argument.name in options:
        context.error(Code.P603, f"`{argument.name}` is given twice", argument.span, label="given again")
        return
    near = context.closest(argument.name or "", options)
    help_ = f"did you mean `{near}`?" if near else f"options are {listed(options)}"
    mended = near and near + argument.span.text.removeprefix(argument.name or "")
    message = f"`{source.function}` has no option `{argument.name}`"
    context.error(Code.P603, message, argument.span, label="unknown option", help=help_, suggestion=mended)


def _option(context: Context, source: ast.Call, argument: ast.Argument, option: Option) -> typed.Const | None:
    place = f"`{argument.name}` of `{source.function}`"
    value = literal_of(context, argument.value, Type(option.kind), place, Code.P603)
    if value is not None and option.kind is not Kind.STRING and not option.low <= value.value <= option.high:
        limits = "between 0% and 100%" if option.kind is Kind.PERCENT else f"at least `{option.low:g}s`"
        context.error(Code.P603, f"{place} is {limits}", argument.value.span, label="out of range")
        return None
    if value is not None and option.kind is Kind.STRING and not value.value.strip():
        context.error(Code.P603, f"{place} must not be empty", argument.value.span, label="empty")
        return None
    if value is not None and argument.name == "relabel":
        context.work.spend(context.catalogue.regex_steps(value.value))
        fault = context.catalogue.regex_fault(value.value)
        if fault is not None:
            context.error(Code.P603, f"{place} is {fault}", argument.value.span, label="cannot be read")
            return None
    return value
