"""Random expressions of the language as text, right in their kinds, and policies made of them.

Unlike the typed trees of `programs`, these go through the checker: what it says about types, missing values and possible numbers is then
compared with what the interpreter finds.
"""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

DECLARATIONS = """
param limit: count = 3 range 1..9
param keep: percent = 10% range 0%..50%
metric load: percent = prometheus('q', node: "instance", max_age: 5s, min_coverage: 0%)
let siblings = pods where it.labels["app"] == pod.labels["app"]
let here = count(siblings, on: node)
let either(x: number, y: number) = if x > here then x ?? limit else x - y
let plain(x: string) = x ?? node.labels["disk"]
let sizes = { "a": 1, "ssd": 5 }
let names = { 0: "a", 2: "ssd" }
let gpus = node.free["nvidia.com/gpu"]
let zone = node.labels["topology.kubernetes.io/zone"]
group by pod.labels["app"] { min_count limit }
"""
LEAVES = {
    "count": (
        "0",
        "2",
        "limit",
        "here",
        "gpus",
        "node.pod_count",
        'pod.requests["nvidia.com/gpu"]',
        'count(pods, within: "disk")',
        "count(group)",
        "pod.group.size",
    ),
    "cpu": ("500m", "node.free.cpu", "pod.requests.cpu", "pod.limits.cpu", "avg(pods, it.requests.cpu, on: node)"),
    "percent": ("50%", "keep", "load", "share_after('memory')"),
    "string": ('"a"', '""', "zone", "node.name", 'node.labels["disk"]', 'pod.labels["app"]', "pod.namespace", "pod.group.name"),
    "bool": ("true", "false", "node.unschedulable", "has(zone)", '(node.labels matches "disk in (ssd),x!=y")', "(zone in ['a', 'b'])"),
}
NUMBERS = ("count", "cpu", "percent")


@cache
def expressions(kind: str, depth: int) -> st.SearchStrategy[str]:
    """Texts of expressions of a kind, nested to some depth."""
    leaves = st.sampled_from(LEAVES[kind])
    if depth <= 0:
        return leaves
    same, asked = expressions(kind, depth - 1), expressions("bool", depth - 1)
    forms = [
        leaves,
        st.tuples(same, same).map(lambda p: f"({p[0]} ?? {p[1]})"),
        st.tuples(asked, same, same).map(lambda p: f"(if {p[0]} then {p[1]} else {p[2]})"),
    ]
    if kind == "string":
        forms.append(expressions("count", depth - 1).map(lambda x: f"names[{x}]"))
        forms.append(same.map(lambda x: f"plain({x})"))
    if kind == "bool":
        forms += _conditions(depth, same)
    if kind in NUMBERS:
        forms += _numbers(kind, depth, same)
    return st.one_of(forms)


def _numbers(kind: str, depth: int, same: st.SearchStrategy[str]) -> list[st.SearchStrategy[str]]:
    count = expressions("count", depth - 1)
    forms = [
        st.tuples(same, st.sampled_from("+-"), same).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(same, st.sampled_from("/" if kind == "percent" else "*/"), count).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(st.sampled_from(["min", "max"]), same, same).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        same.map(lambda x: f"(-{x})"),
        same.map(lambda x: f"abs({x})"),
    ]
    if kind == "percent":
        cpu = expressions("cpu", depth - 1)
        forms.append(st.tuples(cpu, cpu).map(lambda p: f"ratio({p[0]}, {p[1]})"))
    if kind == "count":
        percent = expressions("percent", depth - 1)
        forms.append(percent.map(lambda x: f"curve({x}, 0% -> 10, keep + 1% -> 100, 90% -> 30)"))
        forms.append(expressions("string", depth - 1).map(lambda x: f"sizes[{x}]"))
        forms.append(st.tuples(same, same).map(lambda p: f"either({p[0]}, {p[1]})"))
    return forms


def _conditions(depth: int, same: st.SearchStrategy[str]) -> list[st.SearchStrategy[str]]:
    text = expressions("string", depth - 1)
    order = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    any_value = st.one_of(*(expressions(kind, depth - 1) for kind in LEAVES))
    compared = [st.tuples(expressions(k, depth - 1), order, expressions(k, depth - 1)) for k in NUMBERS]
    return [
        st.tuples(same, st.sampled_from(["and", "or"]), same).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        same.map(lambda x: f"(not {x})"),
        *(c.map(lambda p: f"({p[0]} {p[1]} {p[2]})") for c in compared),
        st.tuples(text, st.sampled_from(["==", "!="]), text).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(text, st.sampled_from(["in", "not in"]), text).map(lambda p: f"({p[0]} {p[1]} [{p[2]}, 'a'])"),
        st.tuples(text, order, text).map(lambda p: f"(semver(lower({p[0]})) {p[1]} semver(lower({p[2]})))"),
        text.map(lambda x: f"(quantity(lower({x})) >= 2Gi)"),
        any_value.map(lambda x: f"has({x})"),
    ]


@st.composite
def guarded_conditions(draw: st.DrawFn) -> str:
    """Conditions in which a guard often makes up for what may be missing."""
    plain = draw(expressions("bool", draw(st.integers(1, 3))))
    leaf = draw(st.sampled_from(["zone", "gpus", 'pod.labels["app"]', "load", 'node.labels["disk"]']))
    return draw(st.sampled_from([plain, f"has({leaf}) and {plain}", f"{plain} and has({leaf})", f"not has({leaf}) or {plain}"]))


@st.composite
def policies(draw: st.DrawFn) -> str:
    """Policies of one filter with a guard and three clauses, one score, and a let of each kind."""
    lets = "".join(f"let v_{kind} = {draw(expressions(kind, draw(st.integers(0, 3))))}\n" for kind in LEAVES)
    clauses = "".join(f"  {draw(st.sampled_from(['require', 'reject']))} {draw(guarded_conditions())}\n" for _ in range(3))
    when = draw(st.sampled_from(["", "when has(gpus) ", f"when {draw(guarded_conditions())} "]))
    score = draw(expressions("count", draw(st.integers(0, 3))))
    return f'policy "random"\n{DECLARATIONS}{lets}filter f {when}{{\n{clauses}}}\nscore s {when}= {score} normalize minmax\n'
