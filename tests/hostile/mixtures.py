"""Texts in which two constructs meet many times: similar names, functions in messages, curves over metrics, tests that fail."""

from __future__ import annotations

from collections.abc import Callable

from tests.hostile.writing import LABEL, POLICY, Q, each, joined, lines, nested, one, score
from wharfinger.language.check.policy import MAX_CLAUSES
from wharfinger.language.parse.file_nodes import MAX_ITEMS

REJECTED = f'require {LABEL} else "{{node.pod_count}} is not {{0}}" on missing reject'
WIDE = "日é\u0301"
EXCLUDED = "require node.pod_count > {0} reject node.pod_count < 9 + {0}"
UNITS = ("Gi", "Mi", "Ki", "G", "M")


def in_test(steps: str, rules: str = "filter f { require node.pod_count < 3 }\n") -> str:
    """A policy of some rules, with a test of one node and one pod."""
    return f"{POLICY}{rules}test {Q}t{Q} {{\nnode a {{}}\npod p {{}}\nplace p\n{steps}\n}}\n"


def spelled_alike(name: str, used: str, n: int) -> str:
    """Lets of long names, and a sum of names that differ from them in one letter."""
    lets = "".join(each(f"let {name} = node.pod_count\n", n, of=MAX_ITEMS - 1))
    return f"{POLICY}{lets}score s = {joined(each(used, n, of=MAX_ITEMS), ' + ')} normalize max\n"


def commented(expression: str, n: int) -> str:
    """A requirement whose words have a comment behind each of them."""
    words = joined(each(expression, n), " or ").replace("(", "( ").replace(")", " )").split(" ")
    return one("\n".join(f"{word} # {{c" for word in words) + "\n", "")


FAMILIES: dict[str, Callable[[int], str]] = {
    # names that are nearly right
    "names that differ in a letter": lambda n: spelled_alike(f"{'ab' * 25}_{{0}}", f"{'ab' * 25}x_{{0}}", n),
    "unused lets of similar names": lambda n: (
        lines(f"let {'n' * 60}_{{0}} = node.pod_count + {{0}}", n=min(n, MAX_ITEMS - 1)) + "score s = 1\n"
    ),
    "unknown params in a test": lambda n: in_test("\n".join(each("param keep_fre{0} = 3", n)), "param keep_free: count = 1 range 0..9\n"),
    "unknown rules in a test": lambda n: in_test("\n".join(each("expect a rejected by fliter_{0}", n))),
    "unknown scores in a test": lambda n: in_test("\n".join(each("expect a scores socre_{0} >= 3", n)), "score score_1 = 1\n"),
    "unknown fields in a test": lambda n: in_test(f"node b {{ {', '.join(each('label_{0}: 1', n))} }}"),
    "unknown named arguments": lambda n: score(f"most_allocated({', '.join(each('cpuu{0}: {0}', n))})"),
    "unknown types": lambda n: lines("param p{0}: cuont{0} = 1", n=min(n, MAX_ITEMS)),
    "unknown plugins": lambda n: f"{POLICY}base kubernetes {{\n{chr(10).join(each('NodeResourceFit{0} weight 1', n))}\n}}\n",
    "unknown codes that are allowed": lambda n: lines('@allow("L{0}")\nfilter f{0} { require node.pod_count > {0} }', n=min(n, MAX_ITEMS)),
    # two constructs many times
    "functions in messages": lambda n: (
        f"{POLICY}let f(x: count) = x * x + 1\nfilter f {{ require node.pod_count > 3 "
        f'else "{" ".join(each("{f(node.pod_count + {0})}", n))}" }}\n'
    ),
    "curves over metrics and params": lambda n: lines(
        'metric m{0}: percent = prometheus("q{0}", node: "i", refresh: 15s, max_age: 2min, min_coverage: 50%, window: 2min)',
        "param p{0}: percent = 50% range 10%..90%",
        "score c{0} weight 2 = curve(m{0}, 0% -> 40, p{0} -> 100, 100% -> 0) on missing neutral",
        n=min(n, 160),
    ),
    "points of plugins": lambda n: score(
        joined(each("(node_affinity_points() + taint_points() * {0} + most_allocated(cpu: 1, memory: {0}))", n), " + ")
    ),
    "tie breaks by texts": lambda n: f"{POLICY}tie_break {', '.join(each(f'node.labels[{Q}l{{0}}{Q}] ?? node.name desc', n))}\n",
    "preferences of devices with guards": lambda n: lines(
        'prefer device d{0} when has(node.labels["l{0}"]) and pod.priority > {0} = if it.name == "g{0}" then it.free_share else {0}%',
        n=min(n, MAX_ITEMS),
    ),
    "patterns of labels that may be missing": lambda n: one(
        joined(each(f'matches_regex(node.labels[{Q}l{{0}}{Q}] ?? "x", "^(a|b{{0}})$")', n), " or ")
    ),
    "branches behind branches": lambda n: score(
        joined([nested("1", f"(if node.pod_count > {{i}}{number} then {{i}} else {{0}})", 24) for number in range(n)], " + ")
    ),
    "intervals that exclude each other": lambda n: f"{POLICY}filter f {{\n{chr(10).join(each(EXCLUDED, n, of=MAX_CLAUSES // 2))}\n}}\n",
    "filters that exclude each other": lambda n: lines(
        'filter f{0} when pod.labels["a"] == "x{0}" { require node.labels["b"] == "y{0}" on missing reject }', n=min(n, MAX_ITEMS)
    ),
    "quantities of every unit": lambda n: one(
        joined([f"node.free.memory > {number}{UNITS[number % len(UNITS)]}" for number in range(n)], " or ")
    ),
    "a set of quantities": lambda n: one(f"node.free.memory in [{', '.join(each('{0}Mi', n))}]"),
    "a set of conditions": lambda n: one(f"node.unschedulable in [{', '.join(each('node.pod_count > {0}', n))}]"),
    # layout, comments and other characters
    "a comment behind each word": lambda n: commented("node.pod_count > {0}", n),
    "wide characters before a mistake": lambda n: one(f'node.name != "{WIDE * min(5 * n, 20_000)}" and node.name > 3', ""),
    "escapes in a message": lambda n: one("node.pod_count > 3", f' else "{(chr(92) + "n" + chr(92) + Q) * n}"'),
    "lists in lists": lambda n: lines("let a{0} = " + "[" * 40 + "1" + "]" * 40, n=min(n, MAX_ITEMS)),
    "objects in objects in a test": lambda n: in_test("\n".join(each(f"node n{{0}} {{ labels: {'{ a: ' * 40}1{' }' * 40} }}", n))),
    "blank lines": lambda n: f"{POLICY}{chr(10) * 20 * n}filter f {{ require node.pod_count > nmae }}\n",
    # tests that fail
    "expectations that fail": lambda n: in_test("\n".join(each("expect a rejected", n, of=400))),
    "expectations about a rejected node": lambda n: in_test(
        "\n".join(each("expect a accepted", n, of=100)),
        f"filter f {{ require {joined(each('node.pod_count > {0}', n, of=300), ' or ')} }}\n",
    ),
    "messages that no filter says": lambda n: in_test(
        "\n".join(each('expect a rejected by f message "x{0}"', n, of=200)), f"filter f {{\n{chr(10).join(each(REJECTED, n, of=500))}\n}}\n"
    ),
}

# As `texts.PRODUCTS`.
PRODUCTS: dict[str, Callable[[int], str]] = {
    "products of params with ranges": lambda n: (
        lines("param p{0}: number = 2 range -1000000..1000000", n=min(n, 200))
        + f"let big = {joined(each('clamp(p{0}, 1, 2)', n, of=60), ' * ')}\n"
        + "".join(each("score s{0} = node.pod_count * big normalize minmax on missing 0\n", n, of=200))
    ),
}
