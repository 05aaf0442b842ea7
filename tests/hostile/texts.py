"""Policy texts that are as large, deep, wide or connected as the language allows, each with a name.

`FAMILIES` make a text of about that many parts; `texts` gives every family at its largest, and every chain of `doubling` at its longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tests.hostile import blocks, doubling, mistakes, mixtures, placements, values
from tests.hostile.writing import (
    DEEP,
    IDENTITY,
    LABEL,
    PLACED_LABEL,
    POD_LABEL,
    POLICY,
    Q,
    each,
    joined,
    layers,
    lines,
    nested,
    one,
    repeated,
    scope,
    score,
)
from wharfinger.language import ast
from wharfinger.language.check.expressions.functions import MAX_DEPTH
from wharfinger.language.check.policy import MAX_CLAUSES
from wharfinger.language.files import MAX_BYTES
from wharfinger.language.parse.file_nodes import MAX_ITEMS
from wharfinger.language.parse.parser import parse_expression
from wharfinger.language.parse.tokens import Lexer
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics.types import Kind

# What a text may be made of from its beginning to its end, most of it no policy.
PIECES = [
    "(", "[", "{", ")", "- ", "-", "not ", "a ?? ", "a.", "a or ", "a < ", "if a then ", "pods where ", "f(", "[1,", "{{",
    '"', "'", "\\", "\u2028", "é", "&&", "&& ", "1.", "1 Gi ", "1_0 ", '"\\q" ', "@a ", "# x\n", "\n", "x: y\n", "fitler x\n",
    "x-", "let x-y = x-y\n", ",a.b", "{a.b", "let a = \n", "let a = b c\n", "let a = f(", "score\n", "require a\n", 'policy "x"\n',
    'import "x" as y\n', "filter f { ", "filter f {\n require\n",
    'test "x" { node a {', 'test "t" { place a\n', "base kubernetes { A weight 1 ",
    "param a: count = 1 range 1 to 2\n", "metric m: percent = p(", 'let x = "a" ?\n', 'filter f { require a else "x" }\n',
]  # fmt: skip


LOOKS = "score looks = {0} normalize minmax on missing 0\n"

# Nested as deep as may be: the work may grow faster than the text, because the depth has a limit.
NESTED: dict[str, Callable[[int], str]] = {
    "a condition in a condition": lambda n: score(nested("node.pod_count", "(if {0} > 3 then 1 else 2)", min(n, DEEP // 2))),
    "a condition in both ends": lambda n: score(nested("node.pod_count", "(if {0} > 3 and {i} < 9 then 1 else {i})", min(n, DEEP // 3))),
    "a branch in a branch": lambda n: score(nested("3", "(if node.pod_count > {i} then {0} else 2)", min(n, DEEP))),
    "a condition equal to one": lambda n: one(nested("node.unschedulable", "({0} == node.unschedulable)", min(n, DEEP))),
    "a key in a key": lambda n: one(nested('pod.labels["a"]', "pod.labels[{0}]", min(n, DEEP)) + ' == "x"'),
    "a default of a default": lambda n: one(nested('node.labels["a"]', '({0} ?? node.labels["b{i}"])', min(n, DEEP)) + ' == "x"'),
    "nots": lambda n: one(nested(LABEL, "not {0}", min(n, DEEP))),
    "guards in guards": lambda n: one(nested(LABEL, '(has(node.labels["k{i}"]) and {0})', min(n, DEEP))),
    "a curve of a curve": lambda n: score(nested("node.pod_count", "curve({0}, 0 -> 0, 5 -> 100)", min(n, DEEP))),
    "a clamp of a clamp": lambda n: score(nested("node.pod_count", "clamp({0}, 0, 100)", min(n, DEEP))),
    "a call in a call": lambda n: (
        lines("let g(x: count) = x + 1", n=1) + LOOKS.format(nested("node.pod_count", "g({0})", min(n, DEEP // 2)))
    ),
    "a look in a look": lambda n: one(nested("node.name", '{{ "a": "b" }}[{0}]', min(n, DEEP)) + ' == "x"'),
    "minus minus": lambda n: score(nested("node.pod_count", "(- {0})", min(n, DEEP // 2))),
    "parentheses": lambda n: one("(" * min(n, DEEP) + "node.pod_count > 3" + ")" * min(n, DEEP)),
}

# Twice the number makes a text of twice the size; each takes work in proportion.
FAMILIES: dict[str, Callable[[int], str]] = {
    # wide
    "labels joined by and": lambda n: one(joined(each(LABEL, n), " and ")),
    "labels joined by or": lambda n: one(joined(each(LABEL, n), " or ")),
    "labels that may be missing": lambda n: one(joined(each(LABEL, n), " and "), ""),
    "labels with guards": lambda n: one(joined([*each('has(node.labels["l{0}"])', n // 2), *each(LABEL, n // 2)], " and "), ""),
    "labels under if": lambda n: score(joined(each('(if has(node.labels["l{0}"]) then node.pod_count else 1)', n), " + ")),
    "unequal to many": lambda n: one(joined(each('node.name != "n{0}"', n), " and ")),
    "less than many": lambda n: one(joined(each("node.pod_count < {0}", n), " and ")),
    "a scope of many labels": lambda n: scope(joined(each(POD_LABEL, n), " and ")),
    "a scope of many names": lambda n: scope(joined(each('pod.name != "n{0}"', n), " and ")),
    "a long sum": lambda n: score(joined(each("node.pod_count", n), " + ")),
    "a long product": lambda n: score(joined(each("node.pod_count", n), " * ")),
    "a long list of arguments": lambda n: score(f"max({', '.join(each('node.pod_count', n))})"),
    "a set of many members": lambda n: one("node.name in [" + ", ".join(each('"n{0}"', n)) + "]"),
    "many sets": lambda n: one(joined(each('node.name in ["a{0}", "b{0}", "c{0}"]', n), " or ")),
    "a list of many values": lambda n: one("node.name in [" + ", ".join(each('pod.labels["l{0}"]', n)) + "]"),
    "a set param": lambda n: (
        f"{POLICY}param s: set<string> = [{', '.join(each(chr(34) + 'n{0}' + chr(34), n))}]\nfilter f {{ require node.name in s }}\n"
    ),
    "a curve of many points": lambda n: score(f"curve(node.pod_count, {', '.join(each('{0} -> 1', n + 2))})"),
    "a curve over params": lambda n: lines("param p{0}: count = 1 range 0..1", n=min(n, 200)) + curve_of_params(n),
    "a selector of many keys": lambda n: one('(node.labels matches "' + ",".join(each("k{0} in (a,b)", n)) + '")'),
    "a selector of many values": lambda n: one('(node.labels matches "k in (' + ",".join(each("v{0}", n)) + ')")'),
    "many selectors": lambda n: one(joined(each('(node.labels matches "k{0}=a")', n), " and ")),
    "a selector of one key": lambda n: one('(node.labels matches "' + ",".join(each("k notin (a,b{0})", n)) + '")'),
    "many patterns": lambda n: one(joined(each('matches_regex(node.name, "a{0}[a-z]+")', n), " or ")),
    "costly patterns": lambda n: one(joined(each('matches_regex(node.name, "[a-z]{900}{0}")', n), " or ")),
    "a pattern of many choices": lambda n: one('matches_regex(node.name, "' + "|".join(each("a{0}b", n)) + '")'),
    "a pattern of many options": lambda n: one('matches_regex(node.name, "' + "(a|b)?" * n + '")'),
    "patterns of pods": lambda n: one(joined(each('matches_regex(pod.name, "a{0}[a-z]+")', n), " or ")),
    "long texts": lambda n: one(f'node.name != "{"a" * 20 * n}" and node.name != "{"b" * 20 * n}"'),
    "a long message": lambda n: one("node.pod_count > 3", f' else "{"a" * 20 * n}"'),
    "a message of many placeholders": lambda n: one("node.pod_count > 3", ' else "' + "{node.pod_count} {pod.name} " * n + '"'),
    "a long name": lambda n: lines(f"let {'a' * 20 * n} = node.pod_count", n=1) + f"score s = {'a' * 20 * n} normalize minmax\n",
    "a table of many entries": lambda n: one(f"({{ {', '.join(each(f'{Q}k{{0}}{Q}: {{0}}', n))} }}[node.name] ?? 1) > 3"),
    "a table of many numbers": lambda n: one(
        f"({{ {', '.join(each(f'{{0}}: {Q}v{{0}}{Q}', n))} }}[node.pod_count] ?? {Q}{Q}) == node.name"
    ),
    "many tables": lambda n: one(
        joined(each('(({ "a{0}": 1, "b": 2 }[node.name] ?? 1) > 3)'.replace("{ ", "{{ ").replace(" }", " }}"), n), " or ")
    ),
    "many looks into a table": lambda n: (
        lines('let t = { "a": 1, "b": 2 }', n=1) + LOOKS.format(joined(each('t[node.labels["l{0}"]]', n), " + "))
    ),
    "a circle of lets": lambda n: POLICY + circle(min(n, 490)),
    # functions
    "many functions": lambda n: lines("let f{0}(x: count) = x + {0}", "score s{0} = f{0}(node.pod_count) normalize minmax", n=min(n, 240)),
    "many calls of a function": lambda n: (
        lines("let f(x: count) = x * x + 1", n=1) + LOOKS.format(joined(each("f(node.pod_count + {0})", n), " + "))
    ),
    "many equal calls": lambda n: lines("let f(x: count) = x * x + 1", n=1) + LOOKS.format(joined(["f(node.pod_count + 1)"] * n, " + ")),
    "a function of many parameters": lambda n: (
        f"{POLICY}let f({', '.join(each('x{0}: count', n))}) = {joined(each('x{0}', n), ' + ')}\n"
        f"score s = f({', '.join(each('node.pod_count + {0}', n))}) normalize minmax\n"
    ),
    "calls in selections": lambda n: (
        f"{POLICY}let f(x: number) = it.priority > x\n"
        f"filter f {{ require {joined(each('count(pods where f({0}), on: node) > 3', n, of=MAX_ITEMS), ' or ')} }}\n"
    ),
    # many
    "many requirements": lambda n: (
        f"{POLICY}filter f {{\n{chr(10).join(each(f'require {LABEL} on missing pass', n, of=MAX_CLAUSES))}\n}}\n"
    ),
    "many guards": lambda n: (
        f"{POLICY}filter f {{\n{chr(10).join(each(f'require has(node.labels[{Q}l{{0}}{Q}])', n, of=MAX_CLAUSES))}\n}}\n"
    ),
    "many filters": lambda n: lines(f"filter f{{0}} {{ require {LABEL} on missing pass }}", n=min(n, MAX_ITEMS)),
    "many guarded filters": lambda n: lines(f"filter f{{0}} when {POD_LABEL} {{ require {LABEL} on missing pass }}", n=min(n, MAX_ITEMS)),
    "many scores": lambda n: lines("score s{0} = clamp(node.pod_count + {0}, 0, 100)", n=min(n, MAX_ITEMS)),
    "many preferences": lambda n: lines(f"prefer s{{0}} weight 2 = {LABEL} on missing 0", n=min(n, MAX_ITEMS)),
    "many ranked scores": lambda n: lines("score s{0} = node.pod_count * {0} normalize minmax", n=min(n, MAX_ITEMS)),
    "many tiers": lambda n: lines("score s{0} tier 1 + 1 = node.pod_count normalize minmax", n=min(n, MAX_ITEMS)),
    "many tie breaks": lambda n: f"{POLICY}tie_break {', '.join(each('node.pod_count + {0} asc', n))}\n",
    "many victim rules": lambda n: victims(each(f"never_evict when {PLACED_LABEL} on missing keep", n)),
    "victim rules of identity": lambda n: victims(each(f"never_evict when {IDENTITY}", n)),
    "many params": lambda n: lines("param p{0}: count = 1 range 0..1", n=min(n, MAX_ITEMS - 1)) + "tie_break node.pod_count + p0 asc\n",
    "many metrics": lambda n: lines(
        'metric m{0}: percent = prometheus("q{0}", node: "i")', "prefer p{0} = m{0} > 50% on missing 0", n=min(n, 240)
    ),
    "many imports": lambda n: "".join(each('import "l{0}.policy" as l{0}\n', n)) + one("node.pod_count > 3", ""),
    "many annotations": lambda n: POLICY + "".join(each('@owner("x{0}")\n', n)) + "filter f { require node.pod_count > 3 }\n",
    "many quanta": lambda n: lines("quantum 1 tier {0}", n=min(n, MAX_ITEMS)),
    "arguments of a plugin": lambda n: (
        f"{POLICY}base kubernetes {{ NodeResourcesFit weight 1 with {{ {', '.join(each('x{0}: {0}', n))} }} }}\n"
    ),
    # selections
    "many selections": lambda n: counted(each(PLACED_LABEL, n, of=MAX_ITEMS)),
    "selections of identity": lambda n: counted(each(IDENTITY, n, of=MAX_ITEMS)),
    "selections of a namespace": lambda n: counted(each("it.namespace == pod.namespace and it.priority > {0}", n, of=MAX_ITEMS)),
    "selections of times": lambda n: counted(each("age(it.created) > {0}s", n, of=MAX_ITEMS)),
    "selections of a captured label": lambda n: counted(each('it.labels["a{0}"] == pod.labels["b{0}"]', n, of=MAX_ITEMS)),
    "a selection of many labels": lambda n: counted([joined(each(PLACED_LABEL, n), " or ")]),
    "a selection of many names": lambda n: counted([joined(each('it.name != "n{0}"', n), " and ")]),
    "sums of many selections": lambda n: lines(
        "score s{0} = sum(pods where it.priority > {0}, it.requests.cpu) / 1cpu + node.pod_count normalize minmax", n=min(n, MAX_ITEMS)
    ),
    "largest of many selections": lambda n: lines(
        'score s{0} = max(pods where it.priority > {0}, it.priority, within: "topology.kubernetes.io/zone") normalize minmax on missing 0',
        n=min(n, MAX_ITEMS),
    ),
    "many domains": lambda n: lines('score s{0} = count(pods, within: "key{0}") normalize minmax on missing 0', n=min(n, MAX_ITEMS)),
    "many spreads": lambda n: lines(
        'score s{0} = spread(pods where it.priority > {0}, by: "topology.kubernetes.io/zone") on missing 0', n=min(n, MAX_ITEMS)
    ),
    # wrong
    "unknown names": lambda n: wrong(each("node.pod_count > nmae_{0}", n), each("let name_{0} = 1", 40)),
    "unknown long names": lambda n: wrong(each(f"node.pod_count > {'n' * 70}{{0}}b", n), each(f"let {'n' * 70}a{{0}} = 1", 40)),
    "unknown fields": lambda n: wrong(each("node.fre{0}.cpu > 3cpu", n)),
    "unknown functions": lambda n: wrong(each("ratoi{0}(1, 2) > 3", n)),
    "unknown units": lambda n: wrong(each("node.free.memory > {0}Gb", n)),
    "wrong dimensions": lambda n: wrong(each("node.free.cpu == {0}", n)),
    "missing everywhere": lambda n: f"{POLICY}filter f {{\n{chr(10).join(each(f'require {LABEL}', n, of=MAX_CLAUSES))}\n}}\n",
    "needless guards": lambda n: one(joined(each("has(node.pod_count)", n), " and "), ""),
    "wrong calls": lambda n: wrong(each("f({0}cpu) > 3", n), ["let f(x: count) = x + 1"]),
    "functions in a circle": lambda n: lines("let a{0}(x: count) = b{0}(x)", "let b{0}(x: count) = a{0}(x)", n=min(n, MAX_ITEMS // 2)),
    "names given twice": lambda n: lines("filter f { require node.pod_count > {0} }", n=min(n, MAX_ITEMS)),
    "lets in a circle": lambda n: lines("let a{0} = b{0}", "let b{0} = a{0}", n=min(n, MAX_ITEMS // 2)),
    "one large circle": lambda n: POLICY + "".join(f"let a{i} = a{(i + 1) % min(n, MAX_ITEMS)}\n" for i in range(min(n, MAX_ITEMS))),
    "policies in one file": lambda n: lines('policy "p{0}"', n=n),
    "tests of nothing": lambda n: lines('test "t{0}" { node a {} expect b on c }', n=min(n, 500)),
    "unknown objects": lambda n: f'{POLICY}test "t" {{\n{chr(10).join(each("expect pod_{0} on node_{0}", n))}\n}}\n',
    "open brackets": lambda n: "let a = " + "(" * n,
    "closed brackets": lambda n: "let a = " + ")" * n,
    "words": lambda n: "word " * n,
    "halves of rules": lambda n: lines("filter f{0} {", "require", "score", n=n // 3),
} | blocks.FAMILIES
FAMILIES |= mistakes.FAMILIES | mixtures.FAMILIES | values.FAMILIES

# Twice the number makes far more work than twice, because many rules need much: refused above a size, at the same place everywhere.
PRODUCTS: dict[str, Callable[[int], str]] = {
    "a long pattern of classes": lambda n: one('matches_regex(node.name, "' + "[\\\\pL]" * 20 * n + '")'),
    "patterns of classes": lambda n: one(joined(each('matches_regex(node.name, "{0}' + "[\\\\pL]" * n + '")', n // 5), " or ")),
    "patterns of series": lambda n: lines(
        'metric m{0}: percent = prometheus("q", node: "i", relabel: "{0}[a-z]+")', "prefer p{0} = m{0} > 50% on missing 0", n=min(n, 240)
    ),
    "lets in layers and": lambda n: layers(n // 8, " and ", '(node.labels["{}"] == "x")', "filter f {{ require {0} on missing pass }}"),
    "lets in layers or": lambda n: layers(
        n // 8, " or ", '(node.labels["{}"] == "x")', "filter f when {0} {{ require {0} on missing pass }}"
    ),
    "lets in layers plus": lambda n: layers(n // 7, " + ", 'node.free["{}"]', "score s = {0} normalize minmax on missing 0"),
    "guards of one large let": lambda n: large_let(n, "filter f{0} when big and node.pod_count > {0} { require has(node.name) }"),
    "requirements of one large let": lambda n: large_let(n, 'filter f{0} { require big or node.labels["f{0}"] == "x" on missing pass }'),
    "preferences of one large let": lambda n: large_let(n, "prefer p{0} when big = node.pod_count > {0}"),
    "lets of one large let": lambda n: large_let(
        n, 'let b{0} = big or node.labels["f{0}"] == "x"', "filter f{0} { require b{0} on missing pass }"
    ),
    "scope and many rules": lambda n: (
        scope(joined(each(POD_LABEL, 39 * n // 5), " and "))
        + "".join(each(f"filter f{{0}} when {POD_LABEL} {{ require {LABEL} on missing pass }}\n", 2 * n, of=400))
    ),
    "a long list with a long left side": lambda n: one(
        f"({joined(each('node.pod_count', n), ' + ')}) in [{', '.join(each('node.pod_count', n))}]"
    ),
    "a list in a list in a list": lambda n: one(
        nested("node.unschedulable", "({0} in [node.unschedulable, pod.host_network])", min(n, DEEP // 2))
    ),
    "functions that call one twice": lambda n: (
        f"{POLICY}let f0(x: count) = x + 1\n"
        + "".join(f"let f{i + 1}(x: count) = f{i}(f{i}(x))\n" for i in range(min(n, 25)))
        + f"score s = f{min(n, 25)}(node.pod_count) normalize minmax\n"
    ),
    "functions that calculate with two of one": lambda n: (
        f"{POLICY}let f0(x: count, y: count) = x + y\n"
        + "".join(f"let f{i + 1}(x: count, y: count) = f{i}(x + 1, y) * f{i}(y, x - 1)\n" for i in range(min(n, 25)))
        + f"score s = f{min(n, 25)}(node.pod_count, 2) normalize minmax\n"
    ),
    "a chain of functions": lambda n: (
        f"{POLICY}let f0(x: count) = x + 1\n"
        + "".join(f"let f{i + 1}(x: count) = f{i}(x) + 1\n" for i in range(n))
        + f"score s = f{n}(node.pod_count) normalize minmax\n"
    ),
    "ways to a let": lambda n: ways(min(n, 26)),
    "objects like a large one": lambda n: (
        f'{POLICY}filter f {{ require node.pod_count > 3 }}\ntest "t" {{\n'
        f"node a {{ labels: {{ {', '.join(each(f'k{{0}}: {Q}x{Q}', 5 * n))} }} }}\n"
        f"{chr(10).join(each('node n{0} like a', 5 * n))}\npod p {{}}\nplace p\nexpect p on a\n}}\n"
    ),
    "a node of many devices": lambda n: among_devices(f"node a {{ devices: [{{ count: {n}0000 }}] }}"),
    "nodes like one of many devices": lambda n: among_devices(
        f"node a {{ devices: [{{ count: {n} }}] }}\n{chr(10).join(each('node n{0} like a', 5 * n))}"
    ),
    "pods that run among many devices": lambda n: among_devices(
        f"node a {{ devices: [{{ count: {5 * n} }}] }}\n{chr(10).join(each('running r{0} on a', 5 * n))}"
    ),
    "pods that are placed among many devices": lambda n: among_devices(
        f"node a {{ devices: [{{ count: {5 * n} }}] }}\n{chr(10).join(each('pod p{0} place p{0}', n))}"
    ),
    "many devices of many attributes": lambda n: among_devices(
        f"node a {{ devices: [{{ count: {5 * n}, attributes: {{ {', '.join(each('a{0}: 1', 5 * n))} }} }}] }}"
    ),
    "a long text that a function uses often": lambda n: (
        f'{POLICY}let f(x: string) = {joined(["node.name == x"] * 7 * n, " or ")}\nfilter f {{ require f("{"x" * 900 * n}") }}\n'
    ),
    "a long list that a function uses often": lambda n: (
        f"{POLICY}let f(x: set<string>) = {joined(['node.name in x'] * 7 * n, ' or ')}\n"
        f"filter f {{ require f([{', '.join(each(f'{Q}name-of-a-node-{{0}}{Q}', 30 * n))}]) }}\n"
    ),
    "a long list that functions pass on": lambda n: (
        f"{POLICY}let f(x: set<string>, n: count) = n\nlet g(x: set<string>) = {joined(each('f(x, {0})', 12 * n), ' + ')}\n"
        f"score s = g([{', '.join(each(f'{Q}name-of-a-node-{{0}}{Q}', 15 * n))}]) + node.pod_count normalize minmax\n"
    ),
    "many clauses in tests": lambda n: tested(
        "\n".join(each("require node.pod_count < 1000 - {0}", 3 * n)), n, "\n".join(each("expect n{0} accepted", n))
    ),
    "a huge condition in tests": lambda n: tested(f"require {joined(each('node.pod_count < {0}', 5 * n), ' or ')}", n, "expect p0 on n1"),
    "messages of many clauses in tests": lambda n: tested(
        "\n".join(each("require node.pod_count < 1000 - {0}", 2 * n)), 2 * n, 'expect p0 pending message "x"\n' * 10
    ),
    "selections in tests": lambda n: (
        counted(each('it.priority > {0} or it.labels["l{0}"] == "x"', n))
        + f'test "t" {{\nnode n {{}}\n{chr(10).join(each("running r{0} on n {}", 5 * n))}\n'
        + f"{chr(10).join(each('pod p{0} {}', 50))}\n{chr(10).join(each('place p{0}', 50))}\nexpect p0 on n\n}}\n"
    ),
    "or of large ands": lambda n: large_let(
        n, f"filter f{{0}} {{ require {joined(each('(big and node.pod_count < {0})', 7), ' or ')} on missing pass }}"
    ),
}
PRODUCTS |= mixtures.PRODUCTS | placements.PRODUCTS


# Within every limit, and large in two ways that multiply: no expression, rule or table is gone through for each of the others.
WITHIN: dict[str, Callable[[], str]] = {
    "placeholders of one large let": lambda: large_let(
        110, 'filter f { require node.pod_count > 3 else "' + "{big}" * 1200 + '" }', each_rule=False
    ),
    "clauses of one large let": lambda: (
        f"{POLICY}let big = {joined(each('node.pod_count < {0}', 500), ' or ')}\n"
        "filter f {\n" + "\n".join(each("require big or node.pod_count > {0}", 300)) + "\n}\n"
    ),
    "looks of pods into a large table": lambda: (
        f"{POLICY}let t = {{ {', '.join(each(f'{Q}k{{0}}{Q}: {{0}}', 1000))} }}\n"
        f"score s = {joined(each('t[pod.labels[`l{0}`]]'.replace('`', Q), 1000), ' + ')} normalize minmax on missing 0\n"
    ),
    "calls in tests": lambda: (
        f"{POLICY}let f(x: count) = x + 1\nscore s = {joined(each('f(node.pod_count + {0})', 600), ' + ')} normalize minmax\n"
        f'test "t" {{\nnode n {{}}\n{chr(10).join(each("pod p{0} {}", 20))}\n'
        f"{chr(10).join(each('place p{0}', 20))}\nexpect p0 on n\n}}\n"
    ),
} | placements.WITHIN


def circle(n: int) -> str:
    """Lets that each need the next one, and the last one the first one."""
    return "".join(f"let b{i} = b{(i + 1) % n} + {i}\n" for i in range(n))


def among_devices(steps: str) -> str:
    """A policy with a test that places a pod on node `a` after some steps."""
    return f'{POLICY}prefer device d = it.free_share\ntest "t" {{\n{steps}\npod p place p expect p on a\n}}\n'


def tested(clauses: str, n: int, expects: str) -> str:
    """A policy of one filter, with a test of many nodes and pods."""
    steps = "\n".join([*each("node n{0} {}", n), *each("pod p{0} {}", n), *each("place p{0}", n), expects])
    return f'{POLICY}filter f {{\n{clauses}\n}}\ntest "t" {{\n{steps}\n}}\n'


def victims(rules: Sequence[str]) -> str:
    """A policy of rules about victims."""
    return POLICY + "preemption {\n" + "\n".join(rules) + "\n}\n"


def counted(selections: Sequence[str]) -> str:
    """A policy with a score for the number of pods of each selection."""
    return POLICY + "".join(f"score s{i} = count(pods where {s}, on: node) normalize minmax\n" for i, s in enumerate(selections))


def wrong(conditions: Sequence[str], before: Sequence[str] = ()) -> str:
    """A policy of a requirement with much wrong in it."""
    return "\n".join([POLICY, *before, f"filter f {{ require {joined(conditions, ' and ')} }}", ""])


def curve_of_params(n: int) -> str:
    """A score whose curve has points that are sums of params."""
    total = joined(each("p{0}", min(n, 200)), " + ")
    points = ", ".join(f"{1000 * i} + {total} -> 1" for i in range(10))
    return f"score s = curve(node.pod_count, {points}) normalize minmax\n"


def large_let(n: int, *patterns: str, each_rule: bool = True) -> str:
    """A policy with one large let and rules that need it: many of each pattern, or one."""
    return lines(*patterns, n=min(n, 240) if each_rule else 1, before=f"let big = {joined(each(LABEL, 5 * n), ' and ')}\n")


def ways(n: int) -> str:
    """A chain of lets with a guard at each step that says something about what the first reads."""
    values = ", ".join(each('node.free["r{0}"]', n))
    chain = "".join(f'let a{i + 1} = if has(node.free["r{i}"]) then a{i} else a{i}\n' for i in range(n))
    return f"{POLICY}let a0 = max({values}, 0)\n{chain}filter f {{ require a{n} < 10 on missing pass }}\n"


def largest(family: Callable[[int], str]) -> str:
    """A text of a family about as long as a file may be."""
    n = 8
    while n < MAX_BYTES and len(text := family(2 * n)) <= MAX_BYTES and text != family(n):
        n *= 2
    while n > 1 and _too_many_words(text := family(n)):
        n = 3 * n // 4
    return text


def _too_many_words(text: str) -> bool:
    found = Diagnostics()
    Lexer(Source(name="family", text=text), found).read()
    return any(diagnostic.code is Code.P007 for diagnostic in found)


def makers() -> dict[str, Callable[[], str]]:
    """The functions that make hostile texts, by name."""
    found: dict[str, Callable[[], str]] = {
        name: partial(largest, family) for name, family in (NESTED | FAMILIES | PRODUCTS).items()
    } | WITHIN
    for piece in PIECES:
        found[f"repeated: {piece!r}"] = partial(repeated, piece, "", MAX_BYTES)
        found[f"repeated in a let: {piece!r}"] = partial(repeated, piece, f"{POLICY}let a = ", MAX_BYTES // 8)
    return found | chains()


def chains() -> dict[str, Callable[[], str]]:
    """The functions that make chains of lets, by name."""
    found: dict[str, Callable[[], str]] = {}
    for name, kind, step in doubling.steps():
        found[f"doubling: {name}"] = partial(doubling.chain, longest(step), kind, step, "require")
        found[f"doubling in a scope: {name}"] = partial(doubling.chain, longest(step), kind, step, "scope, when and require")
    for place in doubling.PLACES:
        found[f"doubling: {place}"] = partial(doubling.chain, longest("{0} and {0}"), Kind.BOOL, "{0} and {0}", place)
        found[f"doubling sums: {place}"] = partial(doubling.chain, longest("{0} + {0}"), Kind.COUNT, "{0} + {0}", place)
    for place in doubling.CONSTANT_PLACES:
        found[f"doubling constants: {place}"] = partial(doubling.constant_chain, 18, place)
    return found


def texts() -> Iterator[tuple[str, str]]:
    """Every hostile text with its name."""
    return ((name, make()) for name, make in makers().items())


def longest(step: str) -> int:
    """The length of the longest chain of such a let that is not nested too deep."""
    text = step.format("a", i=1)
    expression = parse_expression(Source(name="step", text=text), 0, len(text), Diagnostics())
    return (MAX_DEPTH - 6) // depth(expression)


def depth(node: ast.Node) -> int:
    """The depth of a syntax tree."""
    return 1 + max((depth(child) for child in ast.children(node)), default=0)
