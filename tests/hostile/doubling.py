"""Chains of lets of which each uses another more than once, for every operator, every builtin and every place of an expression.

Written out, a chain of n such lets is a text of 2ⁿ parts. The operators come from the grammar's own enumeration and the builtins from
the catalogue, so that a new one is in here by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from wharfinger.builtins import CATALOGUE
from wharfinger.language import ast
from wharfinger.language.ast import BinaryOp
from wharfinger.language.check.dependencies import nodes_in
from wharfinger.language.parse.parser import parse_expression
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics.catalogue import Function
from wharfinger.language.semantics.types import NUMERIC, Kind

LEAVES = {
    Kind.BOOL: "pod.priority > 3",
    Kind.COUNT: "pod.priority",
    Kind.PERCENT: "ratio(pod.requests.cpu, 4cpu)",
    Kind.STRING: 'pod.labels["app"]',
    Kind.TIME: "pod.created",
    Kind.CPU: "pod.requests.cpu",
    Kind.MEMORY: "pod.requests.memory",
    Kind.DURATION: "age(pod.created)",
}
DECLARATIONS = 'param k: count = 3 range 1..9\nmetric load: percent = prometheus("q", node: "instance")\n'
DECLARATIONS += "workload typical = [{ cpu: 4cpu, gpu: 1, milli: 500, weight: 100% }]\n"
DECLARATIONS += "let both(x: number, y: number) = if x > y then x + y else y\n"

LOGIC = {BinaryOp.AND, BinaryOp.OR}
ARITHMETIC = {BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV}
BY_HAND = {
    BinaryOp.IN: (Kind.BOOL, "{0} in [{0}, pod.host_network, not {0}]"),
    BinaryOp.NOT_IN: (Kind.STRING, 'if {0} not in [{0}, "a"] then {0} else {0}'),
    BinaryOp.MATCHES: (Kind.BOOL, '{0} or (pod.labels matches "a{i}=b") and {0}'),
    BinaryOp.COALESCE: (Kind.STRING, '{0} ?? (pod.labels["b{i}"] ?? {0})'),
}


def steps() -> Iterator[tuple[str, Kind, str]]:
    """(name, kind of the chain, text of a let; `{0}` stands for the let before and `{i}` for its number)."""
    for op in BinaryOp:
        if op in LOGIC:
            yield op.value, Kind.BOOL, f"{{0}} {op.value} {{0}}"
        elif op in ARITHMETIC:
            yield op.value, Kind.COUNT, f"{{0}} {op.value} {{0}}"
        elif op in BY_HAND:
            yield op.value, *BY_HAND[op]
        else:
            yield op.value, Kind.COUNT, f"if {{0}} {op.value} {{0}} then {{0}} else {{0}}"
    yield "not", Kind.BOOL, "not ({0} and {0})"
    yield "negative", Kind.COUNT, "-{0} - {0}"
    yield "if", Kind.BOOL, "if {0} then {0} else {0}"
    yield "if in if", Kind.COUNT, "if (if {0} > 3 then {0} else 2) > 3 then {0} else {0}"
    yield "guarded", Kind.STRING, 'if has(pod.labels["b{i}"]) then {0} else {0}'
    yield "has", Kind.STRING, 'if has({0}) then {0} else "a"'
    yield "curve", Kind.COUNT, "curve({0}, 0 -> 1, 2 -> 3) + {0}"
    yield "key", Kind.STRING, 'if has(pod.labels["b{i}"]) then {0} else pod.labels[{0}]'
    yield "list", Kind.COUNT, "if {0} in [{0}, {0} + 1, {i}] then {0} else {0}"
    yield "table", Kind.STRING, '{{ "a": "b", "c": "d" }}[{0}] ?? {0}'
    yield "own function", Kind.COUNT, "both({0}, {0}) + both({0}, {i})"
    for function in CATALOGUE.functions():
        if "fragmentation_with" not in function.name:  # it speaks of a device, which a let does not know
            yield from _calls(function)


def _calls(function: Function) -> Iterator[tuple[str, Kind, str]]:
    """A step for each argument of a builtin that a chain can be, or one that has the builtin in it where none can."""
    call, arguments = _example(function)
    found = 0
    for parameter, (start, end) in zip(function.parameters, arguments, strict=False):
        kind = next((kind for kind in LEAVES if kind in parameter.kinds and kind is not Kind.TIME), None)
        if parameter.literal or parameter.name == "metric" or kind is None:
            continue
        found += 1
        own = f"{call[:start]}{{0}}{call[end:]}" if kind is Kind.STRING else f"{function.name}({', '.join(['{0}'] * len(arguments))})"
        if kind is Kind.COUNT and parameter.kinds == NUMERIC and function.parameters[-1].literal:
            own = f"{function.name}({{0}}, 5)"
        yield f"{function.name} {parameter.name}", kind, f"if ({own} == {own}) ?? true then {{0}} else {{0}}"
    if not found:
        yield function.name, Kind.BOOL, f"({{0}} and {{0}}) or (({call} == {call}) ?? {{0}})"


def _example(function: Function) -> tuple[str, list[tuple[int, int]]]:
    """The call in the example of a builtin, and where its positional arguments stand in it."""
    source = Source(name="example", text=function.example)
    tree = parse_expression(source, 0, len(source.text), Diagnostics())
    name, dot, field = function.name.partition(".")
    call = next(node for node in nodes_in(tree) if isinstance(node, ast.Call) and node.function == name)
    text = call.span.text
    places = [(a.value.span.start - call.span.start, a.value.span.end - call.span.start) for a in call.arguments if a.name is None]
    return f"{text}{dot}{field}", places


# Where an expression may stand: `{bool}` and `{number}` are conditions on the last let of a chain. A scope stands before the lets.
PLACES = {
    "scope": ("for pods where {bool}", "filter f {{ require node.pod_count < 9 }}"),
    "require": ("", "filter f {{ require {bool} on missing pass }}"),
    "reject": ("", "filter f {{ reject {bool} on missing pass }}"),
    "when of a filter": ("", "filter f when {bool} {{ require node.pod_count < 9 }}"),
    "scope, when and require": ("for pods where {bool}", "filter f when {bool} {{ require {bool} or node.pod_count < 9 on missing pass }}"),
    "several clauses": (
        "",
        "filter f {{ require {bool} on missing pass require {bool} on missing reject require not ({bool}) on missing pass }}",
    ),
    "message": ("", 'filter f {{ require node.pod_count < 9 else "{{{hole}}} and {{{hole}}}" }}'),
    "prefer": ("", "prefer p = {bool} on missing 0"),
    "avoid": ("", "avoid p when {bool} = {bool} on missing skip"),
    "score": ("", "score s = clamp({number}, 0, 100) on missing neutral"),
    "score in points": ("", "score s = if {number} > 3 then 100 else 0 on missing 0"),
    "normalize": ("", "score s = {number} + node.pod_count normalize minmax on missing 0"),
    "selection": ("", "filter f {{ require count(pods where it.priority > 3 and {bool}) < 9 }}"),
    "value of an aggregate": ("", "filter f {{ require sum(pods where {bool}, it.priority + {number}, on: node) < 9 on missing pass }}"),
    "domain": ("", 'score s = count(pods where {bool}, within: "zone") + node.pod_count normalize max on missing 0'),
    "tie break": ("", "tie_break {number} asc, node.pod_count + {number} desc"),
    "preemption": (
        "",
        "preemption {{ only_evict when {bool} on missing keep never_evict when {bool} or it.priority > 3 on missing keep }}",
    ),
    "guard in a condition": ("", "filter f {{ require has({hole}) and {bool} or not has({hole}) }}"),
    "name of a group": ("", 'group by if {bool} then "a" else pod.name {{ min_count 2 }}'),
    "members of a group": ("", "group by pod.name {{ min_count {number} ?? 2 }}"),
    "permit": ("", "permit p {{ require {bool} on missing pass }}"),
    "when and message of a permit": ("", 'permit p when {bool} {{ require count(pods where it.priority > 3) > 3 else "{{{hole}}}" }}'),
    "preference of devices": ("", "prefer device d = if {bool} then 1 else 2"),
    "when of a preference of devices": ("", 'prefer device d when {bool} = it.name == "gpu-0"'),
    "selection of devices": ("", 'filter f {{ require count(devices where it.name == "gpu-0" and {bool}, on: node) < 9 on missing pass }}'),
    "table": ("", 'score s = {{ "a": 1, "b": 2 }}[if {bool} then "a" else node.name] ?? 1 normalize minmax'),
    "count of the group": (
        "group by pod.name {{ min_count 2 }}",
        'score s = count(group, within: "k") + {number} normalize max on missing 0',
    ),
    "size of the group": ("", "group by pod.name {{ min_count 2 }}\nfilter f {{ require pod.group.size > 3 and {bool} on missing pass }}"),
    "fragmentation": ("", "score s = fragmentation(typical) + {number} normalize minmax on missing 0"),
    "fragmentation of a device": ("", "prefer device d = {number} - fragmentation_with(it, typical)"),
    "branch": ("", "score s = if {bool} then 1 else (if not ({bool}) then 2 else 3) on missing 0"),
}
CONSTANT_PLACES = {
    "weight": "score s weight {0} = node.pod_count normalize minmax",
    "spread": "score s = node.pod_count normalize minmax({0})",
    "points": 'score s = node.free["gpu"] normalize minmax on missing clamp({0}, 0, 100)',
    "points of a curve": "score s = curve(node.pod_count, 0 -> 0, 1 + abs({0}) -> clamp({0}, 0, 100))",
    "time of a permit": "permit p timeout 1s * abs({0}) {{ require pod.priority > 3 }}",
    "time of a group": "group by pod.name {{ min_count 2 timeout 1s * abs({0}) }}",
    "weight of a plugin": "base kubernetes {{ ImageLocality weight {0} }}",
}


def chain(length: int, kind: Kind, step: str, place: str) -> str:
    """A policy with a chain of lets, each made of the one before by `step`, of which a rule uses the last."""
    last = f"a{length}"
    plain = last if kind in NUMERIC and kind in (Kind.COUNT, Kind.PERCENT) else f"(if has({last}) then 1 else 2)"
    truth = last if kind is Kind.BOOL else f"({last} == {last})"
    scope, rule = (text.format(bool=truth, number=plain, hole=last) for text in PLACES[place])
    lets = [f"let a{n + 1} = {step.format(f'a{n}', i=n)}" for n in range(length)]
    return "\n".join(['policy "chain"', scope, DECLARATIONS, f"let a0 = {LEAVES[kind]}", *lets, rule, ""])


def functions(length: int, body: str) -> str:
    """A policy with a chain of functions, each made of the one before by `body` (`f` stands for its name, `{i}` for a number)."""
    lets = [f"let f{n + 1}(x: number) = {body.replace('f(', f'f{n}(').format(i=n)}" for n in range(length)]
    return "\n".join(
        ['policy "chain"', DECLARATIONS, "let f0(x: number) = x + 1", *lets, f"score s = f{length}(node.pod_count) normalize minmax", ""]
    )


FUNCTIONS = {
    "sum": "f(x) + f(x)",
    "branch": "if f(x) > 3 then f(x) else -f(x)",
    "curve": "curve(f(x), 0 -> 1, 2 -> 3) * f(x)",
    "table": '({{ "a": 1, "b": 2 }}[if f(x) > 3 then "a" else "b"] ?? f(x)) * f(x)',
    "list": "if f(x) in [f(x), {i}] then f(x) else 1",
    "the largest": "max(f(x), f(x), {i})",
}
"""Bodies of functions that each call the one before with the same argument."""


def constant_chain(length: int, place: str) -> str:
    """A policy with a chain of lets over params, which is worked out when the policy is compiled."""
    lets = [f"let a{n + 1} = (a{n} + a{n}) / 2" for n in range(length)]
    return "\n".join(['policy "chain"', DECLARATIONS, "let a0 = k", *lets, CONSTANT_PLACES[place].format(f"a{length}"), ""])
