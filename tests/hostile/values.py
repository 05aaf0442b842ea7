"""Texts of values at their limits, and of permits, metrics and messages that read much."""

from __future__ import annotations

from collections.abc import Callable

from tests.hostile.writing import LABEL, POLICY, each, joined, lines, nested, one, scope, score
from wharfinger.language.check.policy import MAX_CLAUSES
from wharfinger.language.parse.file_nodes import MAX_ITEMS

FAR = "9" * 14
SET = ", ".join(f'"n{number}"' for number in range(50))
TABLE = ", ".join(f'"k{number}": {number}' for number in range(60))
COUNT = "{count(pods where it.labels['l{0}'] == pod.name, on: node)}"


def tests(pattern: str, rules: str) -> Callable[[int], str]:
    """Policies of some rules with many tests."""
    return lambda n: f"{POLICY}{rules}" + "\n".join(each(pattern, n, of=500)) + "\n"


FAMILIES: dict[str, Callable[[int], str]] = {
    # numbers and units
    "numbers of many digits": lambda n: one(joined(each(f"node.pod_count < {FAR}{{0}}", n), " or ")),
    "quantities beyond any node": lambda n: one(joined(each(f"node.free.memory < {FAR}{{0}}Ei", n), " or ")),
    "a number of very many digits": lambda n: one("node.pod_count < " + "9" * 20 * n),
    "a very long fraction": lambda n: one("node.pod_count < 0." + "0" * 20 * n + "1"),
    "quotients of tiny numbers": lambda n: score(joined(each("(node.pod_count * 0.00000000001{0} / 0.00000000001{0})", n), " + ")),
    "products that overflow": lambda n: score(joined(["(node.pod_count + 1000000000000000)"] * n, " * ")),
    "params of the widest ranges": lambda n: lines(
        "param p{0}: memory = 1Gi range 1Gi..9007199Gi",
        "score s{0} = (p{0} / 1B) * (node.free.memory / 1B) normalize minmax on missing 0",
        n=min(n, MAX_ITEMS // 2),
    ),
    "curves through far points": lambda n: lines(
        f"score c{{0}} = curve(node.pod_count * 1{{0}}, -{FAR} -> -{FAR}, 0 -> 0, 0.000000001 -> {FAR}, {FAR} -> {{0}}) normalize minmax",
        n=min(n, MAX_ITEMS),
    ),
    "weights of params with ranges": lambda n: lines(
        "param w{0}: number = 1 range 0..1", "score s{0} weight w{0} * w{0} + {0} = node.pod_count normalize minmax", n=min(n, 240)
    ),
    "sets in many params": lambda n: lines(
        f"param s{{0}}: set<string> = [{SET}]", "filter f{0} { require node.name not in s{0} }", n=min(n, MAX_ITEMS // 2)
    ),
    "many large tables": lambda n: lines(
        f"let t{{0}} = {{ {TABLE} }}", "score s{0} = (t{0}[node.name] ?? 1) + (t{0}[pod.name] ?? 2) normalize minmax", n=min(n, 200)
    ),
    # times
    "a scope of ages": lambda n: scope(joined(each("age(pod.created) < {0}min", n), " or ")),
    "a scope of times of day": lambda n: scope(joined(each('(time_of_day("Asia/Tokyo") > {0}s and weekday("UTC") != "mon")', n), " or ")),
    "a scope of labels of the namespace": lambda n: scope(joined(each('(pod.namespace_labels["l{0}"] ?? "x") == pod.name', n), " or ")),
    "permits that read ages of placed pods": lambda n: lines(
        "permit p{0} timeout 1min { require count(pods where (age(it.created) ?? 1d) < {0}min, on: node) > 99 }", n=min(n, MAX_ITEMS)
    ),
    # messages
    "a permit whose message counts": lambda n: (
        f'{POLICY}permit p timeout 1min {{ require node.pod_count > 3 else "{"".join(each(COUNT, n))}" }}\n'
    ),
    "a large set in messages": lambda n: (
        f"{POLICY}param s: set<string> = [{', '.join(each('`name-of-node-{0}`'.replace('`', chr(34)), n))}]\n"
        'filter f { require node.name in s else "{s} {s} {s}" }\n'
    ),
    "a long text in many messages": lambda n: (
        f'{POLICY}let a = "{"x" * 50 * n}"\nfilter f {{\n'
        + "\n".join(each('require node.pod_count > {0} else "{a}{a}{a}"', n, of=MAX_CLAUSES))
        + "\n}\n"
    ),
    # metrics
    "metrics of long queries": lambda n: lines(
        f'metric m{{0}}: percent = prometheus("{"sum(rate(x[5m])) + " * 60}1", node: "instance")',
        "prefer p{0} = m{0} > 50% on missing 0",
        n=min(n, 160),
    ),
    "a query of brackets": lambda n: (
        f'{POLICY}metric m: percent = prometheus("{"(" * n}x{")" * n}", node: "instance")\nprefer p = m > 50% on missing 0\n'
    ),
    "a sum of metrics": lambda n: (
        lines('metric m{0}: percent = prometheus("q{0}", node: "i")', n=min(n, 240))
        + f"score s = {joined(each('(m{0} ?? 1%)', n, of=240), ' + ')} normalize minmax\n"
    ),
    # names and nesting
    "names like those of builtins": lambda n: lines(
        "let max{0}(x: number) = max(x, {0})",
        "let count{0} = max{0}(node.pod_count)",
        "score ratio{0} = count{0} normalize minmax",
        n=min(n, 160),
    ),
    "deep expressions in many scores": lambda n: lines(
        f"score s{{0}} = {nested('node.pod_count', '(if node.pod_count > {i} then {0} else {i})', 40)} normalize minmax", n=min(n, 100)
    ),
    "a wide condition in a deep one": lambda n: one(nested(joined(each(LABEL, n), " and "), "(not {0} or node.unschedulable)", 30)),
    "characters that change the direction": lambda n: one(joined(each(f'node.name != "{chr(0x202E)}{{0}}{chr(0x202C)}"', n), " and ")),
    # tests
    "tests with params": tests(
        'test "t{0}" { param k = {0}1 node a pod p place p expect p on a }',
        "param k: count = 3 range 0..1000000\nfilter f { require node.pod_count < k }\n",
    ),
    "tests with samples": tests(
        'test "t{0}" { node a metric m { a: {0}% age {0}s } pod p place p expect p on a }',
        'metric m: percent = prometheus("q", node: "i")\nprefer p = m < 50% on missing 0\n',
    ),
}
