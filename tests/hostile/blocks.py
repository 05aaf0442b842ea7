"""Texts of groups, permits, devices, workloads, plugins and tests, as long as the language lets them be."""

from __future__ import annotations

from collections.abc import Callable

from tests.hostile.writing import POD_LABEL, POLICY, each, joined, lines
from wharfinger.language.check.policy import MAX_CLAUSES
from wharfinger.language.parse import grammar
from wharfinger.language.parse.file_nodes import MAX_ITEMS

TYPICAL = "workload typical = [{ cpu: 4cpu, gpu: 1, milli: 500, weight: 100% }]\n"
NAMES = sorted(word for word in grammar.terminals().keywords if word not in grammar.terminals().reserved and word not in {"node", "pod"})
OUTCOMES = (
    "on n",
    "not on n, n",
    "pending",
    'pending message "x"',
    "rejected",
    "rejected by f",
    'rejected message "x"',
    'rejected by f message "x"',
    "accepted",
    "evicted",
    "not evicted",
    "held",
    'held message "x"',
    "not held",
    'on device "gpu-0", "gpu-1"',
)
OF_GROUPS = ("placed", "pending", 'pending message "x"', 'together in "rack"')


def group(*group_lines: str, by: str = 'pod.labels["job"]', after: str = "") -> str:
    """A policy with a group."""
    return POLICY + f"group by {by} {{ min_count 2 {' '.join(group_lines)} }}\n" + after


def required(pattern: str, n: int, operator: str = " or ") -> str:
    """A filter that requires many conditions, joined."""
    return f"filter f {{ require {joined(each(pattern, n), operator)} on missing pass }}\n"


def scored(pattern: str, n: int) -> str:
    """A score that is the sum of many numbers."""
    return f"score s = {joined(each(pattern, n), ' + ')} normalize minmax on missing 0\n"


def permits(condition: str, n: int) -> str:
    """A policy of many permits."""
    pattern = f"permit p{{0}} timeout 1min when pod.priority > {{0}} {{ require {condition} }}\n"
    return group(after="".join(each(pattern, n, of=MAX_ITEMS)))


def in_test(*patterns: str, expects: str = "place p\nexpect p on n") -> Callable[[int], str]:
    """Policies of a test with such steps for each number."""
    rules = "param k: count\nfilter f { require node.pod_count < k }\nscore s = node.pod_count normalize max on missing 0\n"
    metric = 'metric load: percent = prometheus("q", node: "instance")\nprefer idle = load < 50% on missing 0\n'
    first = "param k = 3\nnode n { labels: { a: '1', } }\npod p {}\npod q {}\nrunning r on n {}\nplace q\n"
    first += 'pod w { labels: { "job": "g" } }\nplace group g\n'

    def text(n: int) -> str:
        steps = "\n".join(step for pattern in patterns for step in each(pattern, min(n, 400)))
        return f'{POLICY}{rules}{metric}{GROUPS}test "t" {{\n{first}{steps}\n{expects}\n}}\n'

    return text


GROUPS = 'group by pod.labels["job"] { min_count 2 }\n'
CLAUSE = f"require count(group) > {{0}} or {POD_LABEL} on missing reject"
DEVICE_NAME = '(it.name == "gpu-{0}")'
DEVICE_ATTRIBUTE = 'it.attributes["a{0}"] == "x"'
ROW = '{ cpu: {0}m, gpu: 1, milli: 5, model: ["T{0}"], weight: 1% }'
KEYWORDS = f"tie_break {' + '.join(NAMES)} asc\n"

FAMILIES: dict[str, Callable[[int], str]] = {
    # groups
    "a group by a long condition": lambda n: group(by=f"if {joined(each(POD_LABEL, n), ' and ')} then 'a' else pod.name"),
    "a group by a long default": lambda n: group(by=joined(each('pod.labels["l{0}"]', n), " ?? ")),
    "a group that needs a long sum": lambda n: (
        POLICY + "group by pod.name { min_count " + joined(each('(if has(pod.labels["l{0}"]) then 1 else 2)', n), " + ") + " }\n"
    ),
    "many levels": lambda n: group("within " + ", ".join(each('required "r{0}", preferred "p{0}"', n)), "timeout 1min", "disruption group"),
    "many keys to spread over": lambda n: group("spread_over " + ", ".join(each('"k{0}"', n)), "reserve"),
    "equal levels": lambda n: group("within " + ", ".join(['required "r"'] * n)),
    "long levels": lambda n: group("within " + ", ".join(each(f'required "{"r" * 60}{{0}}"', n))),
    "many groups": lambda n: lines('group by "g{0}" { min_count {0} }', n=n),
    "many lines of a group": lambda n: group(*each("timeout {0}s", n)),
    "counts of the group": lambda n: group(after=scored('count(group, within: "k{0}")', n)),
    "counts of the group in lets": lambda n: group(
        after="".join(each('let a{0} = count(group, within: "k{0}") + count(group)\n', n, of=MAX_ITEMS // 2))
        + "".join(each("score s{0} = a{0} normalize max on missing 0\n", n, of=MAX_ITEMS // 2))
    ),
    "questions to the group": lambda n: group(
        after=required("(pod.group.size > {0} and pod.group.placed < {0} or pod.group.min == {0})", n)
    ),
    "the group of other policies": lambda n: POLICY + "group { timeout 9s }\n" + required('pod.group.name != "g{0}"', n, " and "),
    # permits
    "permits of labels": lambda n: permits(joined([POD_LABEL] * 3, " and ") + " on missing pass", n),
    "permits that count": lambda n: permits("count(pods where it.priority > {0}, on: node) < 9", n),
    "permits that count the group": lambda n: permits('count(group) > {0} else "{count(group)} of {{0}}"', n),
    "a permit of many clauses": lambda n: group(after=f"permit p {{\n{chr(10).join(each(CLAUSE, n, of=MAX_CLAUSES))}\n}}\n"),
    # devices
    "many preferences of devices": lambda n: lines(
        'prefer device d{0} when pod.priority > {0} = it.capacity["memory"] / 1Gi + {0}', n=min(n, MAX_ITEMS)
    ),
    "thousands of preferences of devices": lambda n: lines("prefer device d{0} = it.name == 'a{0}'", n=n),
    "a long preference of devices": lambda n: POLICY + f"prefer device d = {joined(each(DEVICE_NAME, n), ' or ')}\n",
    "selections of devices": lambda n: lines(
        'score s{0} = count(devices where it.attributes["a{0}"] == pod.labels["l{0}"], on: node) normalize max on missing 0',
        n=min(n, MAX_ITEMS),
    ),
    "a long selection of devices": lambda n: (
        POLICY + f"score s = count(devices where {joined(each(DEVICE_ATTRIBUTE, n), ' or ')}, on: node) normalize max\n"
    ),
    "devices of a captured name": lambda n: lines(
        "score s{0} = count(devices where it.name != pod.name and it.name != 'g{0}', on: node) normalize max on missing 0",
        n=min(n, MAX_ITEMS),
    ),
    "all devices": lambda n: lines("score s{0} = count(devices, on: node) + {0} normalize max", n=min(n, MAX_ITEMS)),
    # workloads
    "a workload of many rows": lambda n: (
        POLICY
        + f"workload w = [{', '.join(each(ROW, n))}]\n"
        + scored("fragmentation(w) - fragmentation_after(w)", 1)
        + "prefer device d = -fragmentation_with(it, w)\n"
    ),
    "many workloads": lambda n: lines(
        "workload w{0} = [{ cpu: {0}m, weight: 100% }, ]", "score s{0} = fragmentation(w{0}) normalize minmax", n=min(n, MAX_ITEMS // 2)
    ),
    "many fragmentations": lambda n: POLICY + TYPICAL + scored("fragmentation(typical)", n),
    "devices put together with a workload": lambda n: (
        POLICY + TYPICAL + "".join(each("prefer device d{0} = {0} - fragmentation_with(it, typical)\n", n, of=MAX_ITEMS))
    ),
    # words, texts and times
    "names that are keywords elsewhere": lambda n: (
        POLICY + "".join(f"let {name} = node.pod_count\n" for name in NAMES) + scored("{0} + " + " + ".join(NAMES[:9]), n) + KEYWORDS
    ),
    "hashes": lambda n: POLICY + scored('(hash("{0}") + hash(node.name))', n),
    "versions": lambda n: POLICY + required('(semver(node.labels["v{0}"]) > semver("1.{0}.0"))', n),
    "quantities": lambda n: POLICY + required('(quantity(node.labels["q{0}"]).number > {0})', n),
    "labels of the namespace": lambda n: POLICY + required('pod.namespace_labels["l{0}"] == "x"', n),
    "costly patterns of an annotation": lambda n: (
        POLICY + required('matches_regex(pod.annotations["a"], "((a{1,30}){1,30})b{0}$")', min(n, 5))
    ),
    "costly patterns of node names": lambda n: POLICY + required('matches_regex(node.name, "((.{1,30}){1,10})b{0}$")', min(n, 3)),
    "more costly patterns than are allowed": lambda n: POLICY + required('matches_regex(node.name, "((.{1,30}){1,10})b{0}$")', min(n, 90)),
    "texts in an annotation": lambda n: POLICY + required(f'contains(pod.annotations["a"] ?? "", "{"a" * 60}b{{0}}")', min(n, 1200)),
    "names of nodes in an annotation": lambda n: POLICY + required('contains(pod.annotations["a"] ?? "x{0}", node.name)', min(n, 60)),
    "texts made of an annotation": lambda n: (
        POLICY + required('contains(lower(upper(lower(pod.annotations["a"] ?? "x{0}"))), "b")', min(n, 300))
    ),
    "taints of many keys": lambda n: POLICY + required('taint_value(node, "k{0}") == pod.annotations["a"]', min(n, 1200)),
    "unknown time zones": lambda n: POLICY + required('time_of_day(tz: "Europ/Berlin{0}") > 1h', n),
    "times of day": lambda n: f"{POLICY}for pods\n" + required('(time_of_day("Europe/Berlin") > {0}s or weekday("UTC") == "mon")', n),
    # what is left of the grammar
    "plugins of every form": lambda n: (
        f"{POLICY}base kubernetes {{ ImageLocality NodeAffinity, TaintToleration weight 2, NodeResourcesBalancedAllocation with {{ }} "
        f"NodeResourcesFit weight 1 with {{ {', '.join(each('x{0}: {0}', n))}, }}, PodTopologySpread weight 3 with {{ }} "
        "InterPodAffinity with { }, }\n"
    ),
    "versions, tiers and one-sided params": lambda n: (
        'policy "hostile" version "1.2.3"\n@owner\nparam a: count = 3\nparam b: count range 0..3\nquantum 1\nquantum 2 tier 2\n'
        "let f(x: count, ) = max(x, 1, )\n"
        + "".join(each("score s{0} tier 2 = f(node.pod_count) + a + b + {0} normalize minmax\n", n, of=MAX_ITEMS - 10))
        + "filter g { reject node.name in [] or false or node.pod_count in [1, 2, ] }\npreemption { only_evict when true }\n"
    ),
    "imports that are called": lambda n: 'import "l.policy" as l\n' + POLICY + scored("l.f({0}) + l.g()", n),
    "functions of nothing": lambda n: lines("let f{0}() = {0}", n=min(n, MAX_ITEMS)),
    # tests
    "huge groups in a test": in_test('pod w{0} { labels: { "job": "g" } }', expects="place group g\nexpect group g placed"),
    "many groups in a test": in_test('pod w{0} { labels: { "job": "g{0}" } }', "place group g{0}"),
    "questions about groups in a test": in_test(*(f"expect group g {outcome}" for outcome in OF_GROUPS), expects="expect group g pending"),
    "every outcome in a test": in_test(
        *(f"expect q {outcome}" for outcome in OUTCOMES), "expect n scores s >= {0}", "expect q: n rejected"
    ),
    "objects like others in a test": in_test(
        "node n{0} like n\nnode o{0} like n { cpu: {0} }\nnode m{0}\npod p{0} like p\npod q{0} like p {}\npod o{0}\n"
        "running s{0} like p on n\nrunning t{0} like p on n {}\nrunning u{0} on n\nplace p{0}"
    ),
    "samples in a test": in_test(
        "metric load { n: {0}% age {0}s, }", "metric load { n: {0}% }", "metric load {}", "param k = {0}", 'at "2026-01-01T00:00:00Z"'
    ),
}
