"""The chains made from the profiles of a KubeSchedulerConfiguration."""

from __future__ import annotations

import pytest

from tests.unit.framework import fleet
from tests.unit.language.policies import policy
from wharfinger.compiler.program import compile_policy
from wharfinger.errors import UsageError
from wharfinger.framework.arguments import differing
from wharfinger.framework.chain import assemble
from wharfinger.framework.kubernetes_profiles import read_profiles
from wharfinger.framework.registry import default_registry

DEFAULT = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def document(*profiles, **fields):
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": list(profiles), **fields}


def read(*profiles, **fields):
    return read_profiles(document(*profiles, **fields), default_registry())


def weights(plugins):
    """The weights of the scores that count under a profile with these `plugins`."""
    built_in = {name for name in default_registry() if default_registry()[name].__module__.startswith("wharfinger.")}
    chain = assemble((), read({"plugins": plugins}).of())
    return {entry.name: entry.weight for entry in chain.entries if entry.weight and entry.name in built_in}


def named(*names, **weighted):
    return [{"name": name} for name in names] + [{"name": name, "weight": weight} for name, weight in weighted.items()]


def test_no_profile_is_the_default_one():
    assert weights({}) == DEFAULT
    assert list(read().settings) == ["default-scheduler"]


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ({"score": {"enabled": named(ImageLocality=9)}}, {**DEFAULT, "ImageLocality": 9}),
        ({"score": {"enabled": named("NodeAffinity")}}, {**DEFAULT, "NodeAffinity": 1}),  # no weight is 1, not the default weight
        ({"score": {"enabled": named(NodeAffinity=0)}}, {**DEFAULT, "NodeAffinity": 1}),
        ({"multiPoint": {"enabled": named(NodeAffinity=4)}}, {**DEFAULT, "NodeAffinity": 4}),
        ({"multiPoint": {"enabled": named(NodeAffinity=4)}, "score": {"enabled": named(NodeAffinity=5)}}, {**DEFAULT, "NodeAffinity": 5}),
        ({"score": {"disabled": named("*"), "enabled": named(ImageLocality=2)}}, {"ImageLocality": 2}),
        ({"score": {"disabled": named("*")}, "multiPoint": {"enabled": named(ImageLocality=2)}}, {}),
        ({"multiPoint": {"disabled": named("ImageLocality")}}, {k: v for k, v in DEFAULT.items() if k != "ImageLocality"}),
        ({"multiPoint": {"disabled": named("ImageLocality"), "enabled": named(ImageLocality=3)}}, {**DEFAULT, "ImageLocality": 3}),
        (
            {"multiPoint": {"disabled": named("ImageLocality")}, "score": {"enabled": named(ImageLocality=3)}},
            {**DEFAULT, "ImageLocality": 3},
        ),
        (
            {"score": {"disabled": named("TaintToleration")}, "preScore": {"disabled": named("TaintToleration")}},
            {k: v for k, v in DEFAULT.items() if k != "TaintToleration"},
        ),
    ],
)
def test_weights_and_scores_that_count(plugins, expected):
    assert weights(plugins) == expected


def test_a_policy_outweighs_a_profile_for_the_pods_that_it_governs():
    plugins = {"multiPoint": {"disabled": named("ImageLocality")}, "score": {"enabled": named(NodeAffinity=7, TaintToleration=9)}}
    args = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]}}
    config = read({"plugins": plugins, "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}).of()
    base = 'base kubernetes { ImageLocality weight 2 NodeAffinity weight 1 NodeResourcesFit with { strategy: "LeastAllocated" } }'
    chain = assemble([compile_policy(policy(f'for pods where pod.labels matches "team=a"\n{base}'))], config)
    for team, expected, strategy in (("a", {"ImageLocality": 2, "NodeAffinity": 1}, "Least"), ("b", {"NodeAffinity": 7}, "Most")):
        terms = {term.plugin.name: term for term in chain.pod_rules(fleet.pod(labels={"team": team}), fleet.state().snapshot()).scores}
        found = {name: term.weight for name, term in terms.items() if name in ("ImageLocality", "NodeAffinity", "TaintToleration")}
        assert found == {"TaintToleration": 9, **expected}
        fit = terms["NodeResourcesFit"].plugin.arguments.scoring_strategy
        assert (fit.type, [each.weight for each in fit.resources]) == (f"{strategy}Allocated", [3])


def test_preemption_can_be_switched_off():
    for plugins in ({"postFilter": {"disabled": named("DefaultPreemption")}}, {"multiPoint": {"disabled": named("DefaultPreemption")}}):
        assert assemble((), read({"plugins": plugins}).of()).plugin("DefaultPreemption") is None


def test_arguments_reach_the_plugins_and_may_be_typed():
    args = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "NodeResourcesFitArgs",
        "ignoredResources": ["example.com/license"],
        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]},
    }
    config = read({"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}).of()
    fit = assemble((), config).plugin("NodeResourcesFit").arguments
    assert fit.scoring_strategy.type == "MostAllocated"
    assert fit.scoring_strategy.resources[0].weight == 3
    assert fit.ignored_resources == ("example.com/license",)


ARGUMENTS = {
    "NodeResourcesBalancedAllocation": {"resources": [{"name": "cpu"}, {"name": "nvidia.com/gpu"}]},
    "InterPodAffinity": {"hardPodAffinityWeight": 10, "ignorePreferredTermsOfExistingPods": True},
    "PodTopologySpread": {
        "defaultingType": "List",
        "defaultConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    },
    "NodeAffinity": {
        "addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["batch"]}]}]
            }
        }
    },
    "DefaultPreemption": {"minCandidateNodesPercentage": 20, "minCandidateNodesAbsolute": 50},
    "VolumeBinding": {"bindTimeoutSeconds": 30},
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_every_plugin_that_has_some(name):
    chain = assemble((), read({"pluginConfig": [{"name": name, "args": ARGUMENTS[name]}]}).of())
    assert differing(chain.plugin(name).arguments).keys() == ARGUMENTS[name].keys()
    assert chain.revision != assemble().revision


def test_null_is_absent():
    config = read({"plugins": None, "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": None}}]}).of()
    assert assemble((), config).plugin("InterPodAffinity").arguments.hard_pod_affinity_weight == 1


def test_fields_that_change_nothing_are_noted():
    found = read({"percentageOfNodesToScore": 50}, parallelism=16, leaderElection={"leaderElect": True}, podMaxBackoffSeconds=20)
    assert found.notes == (
        "parallelism: changes nothing: all nodes are evaluated together",
        "leaderElection: concerns a running scheduler, and changes nothing about where pods go",
        "podMaxBackoffSeconds: is read from the WharfingerConfiguration of `wharf run`, and changes nothing here",
        "profiles[0].percentageOfNodesToScore: changes nothing: every node is always considered",
    )
    assert read({"plugins": {"multiPoint": {"enabled": named("DefaultBinder")}}}).notes or "DefaultBinder" in default_registry()


def test_profiles_are_chosen_by_scheduler_name():
    two = read({"schedulerName": "default-scheduler"}, {"schedulerName": "batch", "plugins": {"score": {"disabled": named("*")}}})
    assert two.of() == two.of("default-scheduler") != two.of("batch")
    with pytest.raises(UsageError, match="there is no profile for scheduler name web; there are default-scheduler, batch"):
        two.of("web")
    with pytest.raises(UsageError, match="there is no profile for scheduler name default-scheduler"):
        read({"schedulerName": "a"}, {"schedulerName": "b"}).of()
    assert read({"schedulerName": "a"}).of() == read({"schedulerName": "a"}).of("a")


HARD = "is a hard constraint, which settings cannot change or switch off"
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
REFUSED = [
    ({"plugins": {"filter": {"disabled": named("NodePorts")}}}, f"plugins.filter.disabled[0]: NodePorts {HARD}; remove it from `disabled`"),
    ({"plugins": {"preFilter": {"disabled": named("NodePorts")}}}, f"plugins.preFilter.disabled[0]: NodePorts {HARD}"),
    (
        {"plugins": {"multiPoint": {"disabled": named("NodeAffinity")}}},
        f"plugins.multiPoint.disabled[0]: NodeAffinity {HARD}; to drop its score, disable it under `score`",
    ),
    ({"plugins": {"multiPoint": {"disabled": named("*")}}}, f"plugins.multiPoint.disabled[0]: VolumeZone {HARD}; list it under `enabled`"),
    ({"plugins": {"preEnqueue": {"disabled": named("SchedulingGates")}}}, f"plugins.preEnqueue.disabled[0]: SchedulingGates {HARD}"),
    ({"plugins": {"preScore": {"disabled": named("NodeAffinity")}}}, "the score of NodeAffinity needs what it prepares here"),
    ({"plugins": {"queueSort": {"disabled": named("*")}}}, "plugins.queueSort: no plugin is left that orders the queue; enable one"),
    ({"plugins": {"score": {"enabled": named("NodeName")}}}, "plugins.score.enabled[0]: NodeName does not score nodes"),
    ({"plugins": {"score": {"enabled": named("ImageLocalty")}}}, "there is no plugin ImageLocalty; did you mean ImageLocality?"),
    ({"plugins": {"score": {"disabled": named("ImageLocalty")}}}, "there is no plugin ImageLocalty; did you mean ImageLocality?"),
    ({"plugins": {"scores": {}}}, "plugins.scores: there is no such field; did you mean score?"),
    ({"plugins": {"score": {"enabled": [{"weight": 1}]}}}, "plugins.score.enabled[0].name: this field is needed"),
    (
        {"plugins": {"score": {"enabled": named(ImageLocality=-1)}}},
        "plugins.score.enabled[0].weight: Input should be greater than or equal to 0",
    ),
    ({"pluginConfg": []}, "pluginConfg: there is no such field; did you mean pluginConfig?"),
    (
        {"pluginConfig": [{"name": "NodeResourceFit"}]},
        "pluginConfig[0].name: there is no plugin NodeResourceFit; did you mean NodeResourcesFit?",
    ),
    (
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"kind": "MostAllocated"}}}]},
        "pluginConfig[0].args.scoringStrategy.kind: there is no such field",
    ),
    (
        {"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}]},
        "args.hardPodAffinityWeight: Input should be",
    ),
    (
        {"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultConstraints": [SPREAD]}}]},
        "defaultConstraints need defaultingType List",
    ),
    (
        {
            "pluginConfig": [
                {"name": "PodTopologySpread", "args": {"defaultConstraints": [{**SPREAD, "maxskew": 1}], "defaultingType": "List"}}
            ]
        },
        "args.defaultConstraints: there is no field maxskew; did you mean maxSkew?",
    ),
    (
        {"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultConstraints": [{"maxSkew": 1}], "defaultingType": "List"}}]},
        "args.defaultConstraints: a default constraint needs a maxSkew above 0, a topologyKey",
    ),
    (
        {"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultConstraints": [SPREAD] * 101, "defaultingType": "List"}}]},
        "args.defaultConstraints: there are 101; at most 100 are supported",
    ),
    (
        {"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": {"requiredDuringScheduling": {}}}}]},
        "args.addedAffinity: there is no field requiredDuringScheduling; did you mean requiredDuringSchedulingIgnoredDuringExecution?",
    ),
    (
        {"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 3}}}]},
        "args.addedAffinity: Expected `object | null`, got `int`",
    ),
    ({"pluginConfig": [{"name": "NodeName", "args": {"kind": "NodePortsArgs"}}]}, "args.kind: expected NodeNameArgs, not 'NodePortsArgs'"),
    ({"pluginConfig": [{"name": "NodeName"}, {"name": "NodeName"}]}, "pluginConfig[1].name: NodeName is configured already; join the two"),
]


@pytest.mark.parametrize(("profile", "sentence"), REFUSED, ids=[sentence for _, sentence in REFUSED])
def test_unsupported_settings_are_refused_with_the_place_and_the_fix(profile, sentence):
    with pytest.raises(UsageError) as refused:
        read({"schedulerName": "first"}, profile)
    assert sentence in str(refused.value)
    assert all(line.startswith("profiles[1].") for line in str(refused.value).splitlines())


def test_all_errors_are_reported_at_once():
    with pytest.raises(UsageError) as refused:
        read({"plugins": {"filter": {"disabled": named("NodePorts", "NodeName")}}, "pluginConfig": [{"name": "Nothing"}]})
    assert len(str(refused.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
            "is no longer served by Kubernetes 1.36; write kubescheduler.config.k8s.io/v1",
        ),
        ({"apiVersion": "v1"}, "apiVersion: expected kubescheduler.config.k8s.io/v1, not 'v1'"),
        ({"kind": "Policy"}, "kind: expected KubeSchedulerConfiguration, not 'Policy'"),
        ({"extenders": [{"urlPrefix": "http://a"}]}, "extenders: extenders are not called"),
        ({"percentOfNodesToScore": 5}, "percentOfNodesToScore: there is no such field; did you mean percentageOfNodesToScore?"),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: Input should be less than or equal to 100, not 101"),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: Input should be greater than or equal to 1, not 0"),
        (
            {"podInitialBackoffSeconds": 11},
            "the document: podMaxBackoffSeconds is 10; it must be at least podInitialBackoffSeconds, which is 11",
        ),
        ({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]}, "profiles[1].schedulerName: a has a profile already"),
    ],
)
def test_the_document_as_a_whole(fields, sentence):
    with pytest.raises(UsageError) as refused:
        read_profiles({**document(), **fields}, default_registry())
    assert sentence in str(refused.value)
