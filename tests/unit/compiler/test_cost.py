"""The cost of a policy, estimated from its text: how each selection is answered, what is refused to whom."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.load_source import load_source
from tests.unit.compiler import texts
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost, weights
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.program import compile_policy
from wharfinger.compiler.selections import Lookup
from wharfinger.language import load
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError, Source
from wharfinger.language.semantics.authority import CLUSTER, Authority, TenantPolicies

POLICIES = Path(__file__).parents[3] / "policies"
WEB = Authority(namespace="web")
TRUSTED = Authority(namespace="web", allowed=TenantPolicies.TRUSTED)


def checked(text, authority=CLUSTER):
    """The policy of a text as that of an authority."""
    found = Diagnostics()
    policy = load_source(Source(name="p.policy", text=text), CATALOGUE, found)
    assert policy is not None, [diagnostic.message for diagnostic in found]
    return with_authority(policy, authority)


def with_authority(policy, authority):
    return replace(policy, authority=authority)


def counting(predicate, value=""):
    reduction = "sum" if value else "count"
    return f'policy "p"\nscore s = {reduction}(pods where {predicate}{value}, on: node) normalize minmax\n'


def reported(policy):
    found = Diagnostics()
    cost.report(policy, found)
    return [diagnostic.code.name for diagnostic in found]


@pytest.mark.parametrize(
    ("predicate", "lookup"),
    [
        ('it.labels["app"] == pod.labels["app"] and it.priority < pod.priority', Lookup.KEPT),
        ("it.namespace != pod.namespace", Lookup.KEPT),
        ("it.name != pod.name and it.priority > 3", Lookup.INDEX),
        ("not (it.uid == pod.uid) or it.name == pod.name", Lookup.INDEX),
        ('it.labels["leader"] == pod.name', Lookup.INDEX),
        ("lower(it.namespace) == lower(pod.name)", Lookup.INDEX),
        ("if it.name == pod.name then false else it.priority > 3", Lookup.INDEX),
        ('it.name == "a"', Lookup.PODS),
        ("it.name != pod.name and has(it.started)", Lookup.PODS),
        ("starts_with(it.name, pod.name)", Lookup.SCAN),
        ("lower(it.name) == pod.name", Lookup.SCAN),
        ('it.labels[pod.name] == "a"', Lookup.SCAN),
        ('it.name != pod.name and it.labels["a"] == pod.uid', Lookup.SCAN),
    ],
)
def test_the_lookup_of_each_kind_of_selection(predicate, lookup):
    (selection,) = cost.of_policy(checked(counting(predicate))).selections
    assert selection.lookup is lookup
    assert (selection.asked > 0) is (lookup in {Lookup.PODS, Lookup.SCAN})


def test_a_comparison_in_the_value_is_answered_by_an_index_too():
    (selection,) = cost.of_policy(checked(counting("it.priority > 3", ", (if it.name == pod.name then 0 else it.priority)"))).selections
    assert selection.lookup is Lookup.INDEX


def test_the_compiled_policy_costs_what_its_text_does():
    text = 'policy "p"\nparam most: count = 3\nfilter f { require count(pods where it.name != pod.name, on: node) < most }\n'
    policy = checked(text)
    assert cost.of_compiled(compile_policy(policy, {"most": "5"})) == cost.of_policy(policy)


def test_shared_operations_of_rules_are_counted_once():
    rule = "score {} = count(pods where it.priority > 3, on: node) * 2 normalize minmax\n"
    found = cost.of_policy(checked('policy "p"\n' + rule.format("a") + rule.format("b")))
    assert [each.operations for each in found.rules] == [found.operations - cost.SCORE] * 2
    assert len(found.selections) == 1


def test_a_lookup_of_texts_that_differ_per_pod_is_expensive():
    shared, own = (
        cost.of_policy(checked(f'policy "p"\nfilter f {{ require starts_with(node.name, {prefix}) }}\n'))
        for prefix in ("pod.namespace", "pod.name")
    )
    assert shared.operations == cost.FILTER
    assert own.operations >= weights.TEXT
    assert (shared.per_pod, own.per_pod) == (False, True)


@pytest.mark.parametrize(("authority", "codes"), [(CLUSTER, ["L501"]), (TRUSTED, ["L501"]), (WEB, ["P610"])])
def test_a_scan_is_warned_about_for_the_cluster_and_refused_for_a_namespace(authority, codes):
    policy = checked(counting("starts_with(it.name, pod.name)"), authority)
    assert reported(policy) == codes
    if codes == ["P610"]:
        with pytest.raises(PolicyError, match=r"10,000 pods × \d+ operations"):
            cost.affordable(compile_policy(policy))


def test_no_policy_allows_itself_a_scan():
    assert reported(checked('@allow(["L501", "P610"])\n' + counting("starts_with(it.name, pod.name)"), WEB)) == ["P610"]


def many(n, rule):
    return 'policy "p"\n' + "".join(rule.format(i=i) + "\n" for i in range(n))


@pytest.mark.parametrize(
    ("rule", "of_namespace", "of_cluster"),
    [
        ("score s{i} = count(pods where it.priority > {i}, on: node) normalize minmax", 50, None),
        ("filter f{i} {{ require not starts_with(node.labels['a{i}'] ?? 'none', pod.name) }}", 6, 32),
        ("filter f{i} {{ require not ends_with(node.name, 'a{i}') }}", 16, 166),
        ("filter f{i} {{ require not matches_regex(pod.labels['app'] ?? 'none', 'a{i}') }}", 18, None),
        ("filter f{i} {{ require not matches_regex(node.name, 'a{{1,300}}{i:03}') }}", 8, 16),
        ("filter f{i} {{ require not matches_regex(pod.name, 'a{{1,300}}{i:03}') }}", 8, 16),
        ("score s{i} = count(pods where matches_regex(it.labels['a'] ?? '', 'a{{1,300}}{i:03}'), on: node) normalize minmax", 8, 16),
        ("metric m{i}: percent = prometheus('q', node: 'n', relabel: 'a{{1,300}}{i:03}')\nprefer i{i} = m{i} < 50% on missing 0", 8, 16),
        ("score s{i} = node.pod_count + {i} normalize minmax", 95, 476),
        ("prefer s{i} = node.pod_count > {i}", 90, 454),
        ("filter f{i} {{ require has(node.labels['a{i}']) }}", 200, None),
        ("score s{i} = count(pods, within: 'k{i}') normalize max on missing 0", 33, 331),
        ("score s{i} = max(pods, it.priority, within: 'k{i}') normalize max on missing 0", 33, 322),
        ("filter f{i} {{ require not (node.labels matches 'a{i} in (b,c)') }}", 96, None),
        ("score s{i} = count(pods where matches_regex(it.labels['a'] ?? '', 'a{i}'), on: node) normalize minmax", 30, 86),
        ("score s{i} = count(pods where it.labels['a{i}'] == pod.labels['a'], on: node) normalize minmax on missing 0", 7, 25),
    ],
)
def test_a_policy_costs_at_most_what_its_authority_may(rule, of_namespace, of_cluster):
    for most, authority in ((of_namespace, WEB), (of_cluster, CLUSTER)):
        if most is not None:
            assert reported(checked(many(most, rule), authority)) == []
            assert reported(checked(many(most + 1, rule), authority)) == ["P610"]


def test_preemption_asks_a_bounded_number_of_questions():
    rule = "  never_evict when it.priority > {i}\n"
    text = 'policy "p"\npreemption {{\n{}}}\n'
    few, much = (checked(text.format("".join(rule.format(i=i) for i in range(n))), WEB) for n in (10, 200))
    assert (reported(few), reported(much)) == ([], ["P610"])


@pytest.mark.parametrize(
    ("most", "text"),
    [
        (19, "for pods where {pattern}\nfilter f {{ require node.pod_count < 9 }}\n"),
        (19, "for pods where {pattern}\ngroup by pod.name {{ min_count 2 }}\n"),
        (19, "group by pod.name {{ min_count if {pattern} then 2 else 3 }}\n"),
        (19, "for pods where {pattern}\nlet size = if {pattern} then 2 else 3\ngroup by pod.name {{ min_count size }}\n"),
    ],
)
def test_each_pod_is_asked_a_bounded_number_of_questions_about_its_group(most, text):
    """After any change of a pod its group is computed: the scope counts then too."""
    for limit, authority in ((1, WEB), (9, CLUSTER)):
        for n, codes in ((limit, []), (most, ["P610"])):
            pattern = " and ".join(f"matches_regex(pod.labels['app'] ?? 'none', 'a{i}')" for i in range(n))
            assert reported(checked('policy "p"\n' + text.format(pattern=pattern), authority)) == codes


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("for pods where {pattern}", "matches_regex"),
        ("for pods where {pattern}\ngroup by pod.name {{ min_count 2 }}", "group"),
        ("group by pod.name {{ min_count if {pattern} then 2 else 3 }}", "group"),
        ("preemption {{\n  never_evict when {of_item}\n}}", "never_evict"),
    ],
)
def test_regular_expressions_outside_of_rules_count_too_and_are_named(text, place):
    pattern, of_item = (f"matches_regex({whose}.labels['app'] ?? 'none', 'a{{1,1000}}b{{1,900}}')" for whose in ("pod", "it"))
    rule = "filter f { require not matches_regex(node.name, 'b{1,1000}') }\n"
    policy = checked('policy "p"\n' + text.format(pattern=pattern, of_item=of_item) + "\n" + rule, WEB)
    found = Diagnostics()
    cost.report(policy, found)
    (refused,) = found
    assert "5,805 instructions of RE2" in refused.message
    assert refused.span.text.startswith(place)
    assert reported(with_authority(policy, CLUSTER)) == []


OF_CLUSTERS = {"gpu-sharing"}
"""Policies that compute more for each node than a namespace may."""


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.policy")), ids=lambda path: path.stem)
def test_policies_that_we_ship_may_be_those_of_a_namespace(path):
    found, _ = load.load_policies([path], CATALOGUE)
    said = [reported(with_authority(policy, WEB)) for policy in found if policy is not None]
    assert said in ([["P610"]] if path.stem in OF_CLUSTERS else [[]], [])


def test_the_estimate_holds_whatever_was_decided_before():
    text = counting("it.name != pod.name and it.priority > 3")
    policy = compile_policy(checked(text))
    before = cost.of_compiled(policy)
    state = texts.cluster(texts.node("a"), texts.pod("b", on="a", priority=5))
    snapshot = state.snapshot()
    BoundPolicy(policy, texts.pod("c"), snapshot).score(0, snapshot, slice(None))
    assert cost.of_compiled(policy) == before


def test_adding_up_a_value_of_placed_pods_costs_more_than_reading_it():
    read = cost.of_policy(checked(counting("it.requests.cpu > 1cpu"))).counted
    added = cost.of_policy(checked(counting("it.requests.cpu > 1cpu", ", it.requests.cpu"))).counted

    assert added == read + weights.WEIGHED


def of_workload(milli, rule="score f = -fragmentation_after(typical) normalize minmax on missing 0"):
    """A policy of a workload with a request for each of these thousandths of a device."""
    requests = ", ".join(f"{{ cpu: {1 + number}m, gpu: 1, milli: {each}, weight: 0.01% }}" for number, each in enumerate(milli))
    return f'policy "p"\nworkload typical = [{requests}]\n{rule}\n'


@pytest.mark.parametrize(
    ("authority", "most"),
    [
        (CLUSTER, (10_000 - cost.SCORE) // (weights.REQUEST + weights.PART_OF_DEVICE)),
        (WEB, (2_000 - cost.SCORE) // (weights.REQUEST + weights.PART_OF_DEVICE)),
    ],
)
def test_each_request_of_a_workload_and_each_part_of_a_device_has_its_cost(authority, most):
    assert reported(checked(of_workload(range(1, most + 1)), authority)) == []
    assert reported(checked(of_workload(range(1, most + 2)), authority)) == ["P610"]
    alike = (10_000 if authority is CLUSTER else 2_000) // weights.REQUEST - 10
    assert reported(checked(of_workload([500] * min(alike, 500)), authority)) == []


def test_the_fragmentation_with_a_device_is_computed_for_all_devices_of_a_node():
    found = [cost.of_policy(checked(of_workload([500, 250], rule))) for rule in FRAGMENTATIONS]
    assert abs(found[0].operations - found[1].operations) < weights.REQUEST + weights.DEVICES


FRAGMENTATIONS = (
    "score f = -fragmentation_after(typical) normalize minmax on missing 0",
    "prefer device f = -fragmentation_with(it, typical)",
)


@pytest.mark.parametrize(
    ("rule", "operations"),
    [
        ("score s = max(node.pod_count, 1) normalize minmax", cost.SCORE + 11),
        (f"score s = max(node.pod_count, {', '.join(map(str, range(99)))}) normalize minmax", cost.SCORE + 201),
        ('base kubernetes { NodeResourcesFit with { strategy: "MostAllocated", resources: { cpu: 2, memory: 1 } } }', 30),
        ("base kubernetes { NodeResourcesFit with { resources: [" + '{ name: "cpu", weight: 1 }, ' * 50 + "] } }", 1000),
        ("base kubernetes { NodeResourcesFit weight 2 }", 0),
    ],
)
def test_arguments_count_one_by_one(rule, operations):
    assert cost.of_policy(checked(f'policy "p"\n{rule}\n')).operations == operations


@pytest.mark.parametrize(
    ("short", "long", "more"),
    [
        ('contains(it.labels["a"] ?? "", "b")', 'contains(it.annotations["a"] ?? "", "b")', True),
        ('contains(pod.labels["a"] ?? "", it.service_account)', 'contains(pod.annotations["a"] ?? "", it.service_account)', True),
        ('(it.labels["a"] ?? "") == "b"', '(it.annotations["a"] ?? "") == "b"', False),
    ],
)
def test_functions_of_texts_that_may_be_long_count_more_for_placed_pods(short, long, more):
    costs = [cost.of_policy(checked(counting(condition))).counted for condition in (short, long)]
    assert costs[1] - costs[0] == (weights.LONG_TEXT - 1 if more else 0)
