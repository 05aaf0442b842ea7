"""The meaning of the words of the language: a sentence for each keyword, the documentation of functions and attributes, units of types.

Fixed words are keywords, types, units, and the words behind `on missing` and `normalize`. Functions, fields, plugins and options of metrics
have their texts where they are defined. A test compares these tables with the grammar.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from wharfinger.authoring.document import Document
from wharfinger.authoring.words import Word
from wharfinger.language.check.rules import possible
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Attribute, Function, Parameter
from wharfinger.language.semantics.types import NUMERIC, UNITS, Kind, Type
from wharfinger.language.test_steps import DEVICE_FIELDS, NODE_FIELDS, POD_FIELDS, Field
from wharfinger.model import node_labels

KEYWORDS: Mapping[str, str] = {
    "import": 'Uses the lets, params and metrics of another file: `import "shared.policy" as shared`.',
    "as": "The name under which a file is imported.",
    "policy": 'Names the policy: `policy "name" version "1.0.0"`.',
    "version": "The version of the policy, for people.",
    "for": 'Which pods the policy governs: `for pods where pod.namespace == "prod"`.',
    "pods": "The pods that are placed in the cluster, or those for which the condition on `it` after `where` is true.",
    "devices": "The devices of the candidate node, or those for which the condition on `it` after `where` is true.",
    "device": "`prefer device name = …` ranks the devices of the node.",
    "where": "The condition on pods or devices.",
    "param": "A value that can be set from outside: `param keep_free: percent = 10% range 0%..50%`.",
    "range": "The smallest and largest value of a param: `range 0%..50%`.",
    "let": "A name for an expression: `let free = ratio(node.free.cpu, node.allocatable.cpu)`.",
    "metric": "Measured values of nodes: `metric load: percent = prometheus('…', node: \"instance\")`; in a test, samples by node.",
    "workload": "A mix of typical requests, for `fragmentation`: `workload typical = [ { cpu: 4cpu, gpu: 1, weight: 12% } ]`.",
    "filter": "A rule that keeps pods off nodes: `filter name { require … }`.",
    "when": "The rule applies only where this condition is true.",
    "require": "A node passes where the condition is true.",
    "reject": "A node passes where the condition is not true; behind `on missing`, a node without the value is rejected.",
    "else": "The message for nodes that are rejected, or the other branch of an `if`.",
    "on": "`on missing …` defines the result if a value is missing; in a test, the node of a pod.",
    "missing": "`on missing …`: what happens where a value is missing.",
    "score": "A rule that gives nodes 0 to 100 points: `score name weight 2 = …`.",
    "prefer": "A score of 100 where a condition is true, and 0 elsewhere; `prefer device` ranks the devices of the node.",
    "avoid": "A score of 0 where a condition is true, and 100 elsewhere.",
    "tier": "Scores of a higher tier decide first; lower tiers break their ties.",
    "weight": "The factor of the score among the scores of its tier.",
    "normalize": "How raw values become 0 to 100 points: `none`, `max` or `minmax`.",
    "base": "Weights and arguments of Kubernetes' own scores: `base kubernetes { NodeAffinity weight 5 }`.",
    "kubernetes": "The scores of kube-scheduler.",
    "with": "The arguments of a plugin: `with { … }`.",
    "quantum": "Differences of points smaller than this count as ties.",
    "tie_break": "What decides between nodes with equal points: `tie_break node.pod_count asc`.",
    "asc": "The smallest value first.",
    "desc": "The largest value first.",
    "preemption": "Which placed pods may have to leave for a governed pod.",
    "never_evict": "Placed pods (`it`) for which the condition is true are never evicted.",
    "only_evict": "Only placed pods (`it`) for which the condition is true may be evicted.",
    "group": 'The terms for groups of pods: `group by pod.labels["job-name"] { min_count 4 }`; in expressions, the placed members.',
    "min_count": "The number of members of a group that are placed at once: fewer are not placed at all.",
    "timeout": "The time that placed pods wait for others.",
    "within": 'The levels of topology that all members of a group share, the widest first: `within required "example.com/rack"`.',
    "required": "All members of a group are on nodes with one value of this label.",
    "preferred": "The members of a group are on nodes with one value of this label if there is such a place.",
    "spread_over": "Labels of nodes over whose values different groups are spread.",
    "disruption": "What preemption may take of a group: `disruption group` takes all of it or nothing, `disruption pod` single pods.",
    "reserve": "Nodes may be kept free for a group while it waits.",
    "permit": "The conditions for binding a placed pod: `permit name timeout 5min { require … }`.",
    "test": "A test of the policy: nodes, pods, and what is expected of them.",
    "node": "The candidate node; in a test, declares a node.",
    "pod": "The pod that is being placed; in a test, declares a pod.",
    "running": "In a test, a pod that is on a node already.",
    "like": "In a test, takes the fields of an object declared before.",
    "place": "In a test, decides about a pod and places it.",
    "expect": "In a test, a condition that must be true: `expect web on a`.",
    "pending": "In a test, the pod has no node.",
    "rejected": "In a test, the node is rejected, perhaps `by` a rule.",
    "accepted": "In a test, the node passes every filter.",
    "evicted": "In a test, the running pod has to leave.",
    "scores": "In a test, the points of a rule at a node: `expect a scores rule == 50`.",
    "held": "In a test, the placed pod waits for a `permit`.",
    "placed": "In a test, the members that the group needs have nodes.",
    "together": 'In a test, all placed members are on nodes with one value of a label: `expect group training together in "rack"`.',
    "message": "In a test, a part of the message.",
    "by": 'What names the group of a pod: `group by pod.labels["job-name"]`; in a test, the rule that rejects.',
    "at": 'In a test, the time at which it takes place: `at "2026-03-02T09:00:00Z"`.',
    "age": "In a test, how old a sample is.",
    "if": "A choice: `if condition then a else b`.",
    "then": "The value where the condition of `if` is true.",
    "or": "True where one side is true.",
    "and": "True where both sides are true.",
    "not": "True where the condition is false.",
    "in": "True where the left is a member of the set on the right.",
    "matches": 'True where labels match a label selector: `node.labels matches "zone in (a, b)"`.',
    "true": "The condition that is always true.",
    "false": "The condition that is never true.",
}

SUBJECTS: Mapping[str, str] = {
    "pod": "The pod that is being placed.",
    "node": "The candidate node.",
    "it": "A placed pod, inside of `pods where …` and `preemption`, or a device, inside of `devices where …` and `prefer device`.",
    "group": 'The members of the pod\'s group that have a node: `count(group, within: "example.com/rack")`.',
}

TYPES: Mapping[str, str] = {
    "bool": "`true` or `false`.",
    "string": "A text.",
    "number": "A number without a unit.",
    "count": "A whole number.",
    "percent": "A share: `10%`.",
    "cpu": "CPU: `4cpu`, `500m`.",
    "memory": "An amount of bytes: `16Gi`.",
    "duration": "A length of time: `30s`, `5min`.",
    "time": "A moment.",
    "version": "A version, ordered by Semantic Versioning.",
    "set": "A set of values: `set<string>`.",
    "labels": "Labels of an object.",
    "table": 'Values by key: `{ "gold": 3, "silver": 2 }["gold"]`.',
    "workload": "A mix of typical requests.",
    "pods": "A selection of pods.",
    "devices": "A selection of devices.",
    "device": "A device.",
    "pod": "A pod.",
    "node": "A node.",
}

BASE_UNITS: Mapping[Kind, str] = {Kind.CPU: "millicores", Kind.MEMORY: "bytes", Kind.DURATION: "seconds", Kind.TIME: "seconds since 1970"}
"""The unit of numbers of a kind, in words."""

CLAUSE_WORDS: Mapping[str, str] = {
    "pass": "Nodes without the value pass.",
    "reject": "Nodes without the value are rejected.",
}
SCORE_WORDS: Mapping[str, str] = {
    "neutral": "Nodes without the value get the mean of the others.",
    "skip": "The rule is left out at nodes without the value.",
}
VICTIM_WORDS: Mapping[str, str] = {"keep": "Pods without the value stay.", "evict": "Pods without the value may be evicted."}
NORMALIZE_WORDS: Mapping[str, str] = {
    "none": "The points are the value itself.",
    "max": "100 × value / highest value.",
    "minmax": "The lowest value gets 0, the highest 100.",
}
DISRUPTION_WORDS: Mapping[str, str] = {
    "group": "Preemption takes all members of a group, or none.",
    "pod": "Preemption may take single members.",
}
WORDS: Mapping[str, str] = {**CLAUSE_WORDS, **SCORE_WORDS, **VICTIM_WORDS, **NORMALIZE_WORDS, **DISRUPTION_WORDS}

ANNOTATIONS: Mapping[str, str] = {
    "owner": 'The contact for the policy: `@owner("team")`.',
    "allow": 'Keeps a warning away, for the next rule or, in the head, for the policy: `@allow("L201")`.',
}

SPECIAL_FORMS: Mapping[str, tuple[str, str]] = {
    "has": ("has(value)", "True if a value is present."),
    "curve": ("curve(x, x0 -> y0, x1 -> y1, …)", "A line through points, flat outside of them."),
    "count": ("count(pods, on: node)", "The number of selected pods: on the candidate node, `within:` its domain, or in the cluster."),
    "sum": ("sum(pods, value, on: node)", "The sum of a value over the selected pods; 0 where there are none."),
    "avg": ("avg(pods, value, on: node)", "The mean of a value over the selected pods; missing where there are none."),
    "min": ("min(pods, value, on: node)", "The smallest value among the selected pods; missing where there are none."),
    "max": ("max(pods, value, on: node)", "The largest value among the selected pods; missing where there are none."),
}
"""Calls that the checker handles by name, with their syntax."""

OPTIONS: Mapping[str, str] = {
    "node": "The label of the series that names the node.",
    "relabel": "A regular expression whose first group is the node's name.",
    "server": "The server of the settings to query.",
    "times": "A query for the times of the samples.",
    "refresh": "How often samples are fetched.",
    "max_age": "How old a sample may be.",
    "min_coverage": "The share of nodes that must have a sample; the metric is missing everywhere below that.",
    "window": "The time before a sample that it is an average of.",
}
"""Options of the sources of metrics."""

KNOWN_LABELS: Mapping[str, str] = {
    node_labels.HOSTNAME: "The name of the node.",
    node_labels.ARCH: "The architecture of the node, such as `amd64`.",
    node_labels.OS: "The operating system of the node, such as `linux`.",
    node_labels.ZONE: "The zone of the node.",
    node_labels.REGION: "The region of the node.",
    node_labels.INSTANCE_TYPE: "The type of machine.",
}
"""Labels of nodes that Kubernetes defines."""


_OBJECT_FIELDS: Mapping[str, Mapping[str, Field]] = {"NODE": NODE_FIELDS, "POD": POD_FIELDS, "RUNNING": POD_FIELDS}
_DEVICE = ("NODE", "")  # the path of an object in a list: nodes have no other lists of objects than their devices


def object_fields(path: tuple[str, ...]) -> tuple[Mapping[str, Field], tuple[str, ...]]:
    """The fields of the test object that the path of a bracket leads to (none for other brackets), and the rest of the path."""
    if path == _DEVICE:
        return DEVICE_FIELDS, ()
    return _OBJECT_FIELDS.get(path[0], {}) if path else {}, path[1:]


def unit_doc(unit: str) -> str:
    """The quantity that a unit measures, and its value in base units."""
    known = UNITS[unit]
    base = BASE_UNITS.get(known.kind, "")
    factor = f"{float(known.factor):,.10g}"
    return (
        f"{known.kind.value}: {factor} {base}".rstrip() if base else f"{known.kind.value}: a hundredth" if unit == "%" else known.kind.value
    )


def type_with_unit(type_: Type) -> str:
    """A type as a policy writes it, with the unit of its numbers."""
    unit = BASE_UNITS.get(type_.kind)
    missing = ", may be missing" if type_.optional else ""
    return f"{type_} ({unit}{missing})" if unit else f"{type_}{' (may be missing)' if missing else ''}"


def attribute_text(attribute: Attribute) -> str:
    """The documentation of an attribute, as Markdown."""
    return f"{attribute.doc}\n\n{type_with_unit(attribute.type)}"


def signature_text(function: Function) -> str:
    """The signature of a function, with the kinds of its parameters."""
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
    """The documentation of a function, as Markdown with an example."""
    return f"```policy\n{signature_text(function)}\n```\n{function.doc}\n\n```policy\n{function.example}\n```"


def range_text(document: Document, expr: typed.Expr) -> str:
    """A text about the possible numbers of an expression; "" if nothing is known."""
    if expr.type.kind not in NUMERIC or expr.type.kind is Kind.TIME:
        return ""
    interval = document.checked.notes.intervals.of(expr)
    return "" if all(map(math.isinf, interval)) else possible(interval, expr.type.kind)


def short_description(document: Document, word: Word) -> str:
    """A short description of a declared name: its keyword, and its type if it is known."""
    binding = document.declarations.checked.notes.names.get(word.name)
    if binding is None or binding.reference is None:
        return word.role.value
    found = binding.reference(binding.span)
    return word.role.value if found.type.kind is Kind.UNKNOWN else f"{word.role.value}: {found.type}"
