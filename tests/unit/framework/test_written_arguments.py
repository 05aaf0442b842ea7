"""Written arguments of built-in plugins: the values that plugins get, and the sentences about values that do not fit."""

import pytest
from msgspec import structs

from wharfinger.errors import UsageError
from wharfinger.framework import registry
from wharfinger.framework.arguments import BuiltInArguments, differing, shown
from wharfinger.framework.chain_settings import arguments

SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
CONSTRAINT = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
READ = {
    "a number": ("VolumeBinding", {"bindTimeoutSeconds": 5}, {"bindTimeoutSeconds": 5}),
    "a number as text": ("VolumeBinding", {"bindTimeoutSeconds": "7"}, {"bindTimeoutSeconds": 7}),
    "the name of the field": ("VolumeBinding", {"bind_timeout_seconds": 9}, {"bindTimeoutSeconds": 9}),
    "the default": ("VolumeBinding", {"bindTimeoutSeconds": 600}, {}),
    "a truth value": ("GpuShares", {"sharesAreAnnotations": True}, {"sharesAreAnnotations": True}),
    "nothing": ("NodeAffinity", {"addedAffinity": None}, {}),
    "inner defaults": ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}]}, {"resources": [{"name": "cpu", "weight": 1}]}),
    "short forms": (
        "NodeResourcesFit",
        {"strategy": "RequestedToCapacityRatio", "resources": {"cpu": 3}, "shape": SHAPE},
        {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": [{"name": "cpu", "weight": 3}],
                "requestedToCapacityRatio": {"shape": SHAPE},
            }
        },
    ),
    "constraints": (
        "PodTopologySpread",
        {"defaultingType": "List", "defaultConstraints": [CONSTRAINT]},
        {"defaultConstraints": [CONSTRAINT], "defaultingType": "List"},
    ),
}
REFUSED = {
    "bindTimeoutSeconds: Input should be greater than or equal to 0, not -1": ("VolumeBinding", {"bindTimeoutSeconds": -1}),
    "bindTimeoutSeconds: Input should be a valid integer": ("VolumeBinding", {"bindTimeoutSeconds": None}),
    "bindTimeout: there is no such field; did you mean bindTimeoutSeconds?": ("VolumeBinding", {"bindTimeout": 3}),
    "speed: there is no such field; nothing can be set here": ("NodeName", {"speed": 3}),
    "ignoredResources[0]: Input should be a valid string, not 1": ("NodeResourcesFit", {"ignoredResources": [1]}),
    "scoringStrategy: Input should be a mapping, not 3": ("NodeResourcesFit", {"scoringStrategy": 3}),
    "scoringStrategy: Input should be a mapping, not 5": ("NodeResourcesFit", {"strategy": "MostAllocated", "scoringStrategy": 5}),
    "scoringStrategy: Input should be a mapping": ("NodeResourcesFit", {"shape": SHAPE, "scoringStrategy": None}),
    "scoringStrategy.resources[0].wieght: there is no such field; did you mean weight?": (
        "NodeResourcesFit",
        {"scoringStrategy": {"resources": [{"name": "cpu", "wieght": 1}]}},
    ),
    "scoringStrategy.resources[0].name: this field is needed": ("NodeResourcesFit", {"scoringStrategy": {"resources": [{}]}}),
    "scoringStrategy.type: Input should be 'LeastAllocated', 'MostAllocated' or 'RequestedToCapacityRatio', not 'x'": (
        "NodeResourcesFit",
        {"strategy": "x"},
    ),
    "scoringStrategy: the strategy RequestedToCapacityRatio needs requestedToCapacityRatio with a shape": (
        "NodeResourcesFit",
        {"strategy": "RequestedToCapacityRatio"},
    ),
    "scoringStrategy.requestedToCapacityRatio: the utilizations of a shape must ascend": ("NodeResourcesFit", {"shape": SHAPE[::-1]}),
    "resources: Tuple should have at least 1 item after validation, not 0": ("NodeResourcesBalancedAllocation", {"resources": []}),
    "addedAffinity: there is no field x; there are requiredDuringSchedulingIgnoredDuringExecution, "
    "preferredDuringSchedulingIgnoredDuringExecution": ("NodeAffinity", {"addedAffinity": {"x": 1}}),
    "defaultConstraints: there is no field maxSkw; did you mean maxSkew?": ("PodTopologySpread", {"defaultConstraints": [{"maxSkw": 1}]}),
    "the document: defaultConstraints need defaultingType List": ("PodTopologySpread", {"defaultConstraints": [CONSTRAINT]}),
    "defaultingType: Input should be 'System' or 'List', not 'x'": ("PodTopologySpread", {"defaultingType": "x"}),
    "ignorePreferredTermsOfExistingPods: Input should be a valid boolean, unable to interpret input, not 2": (
        "InterPodAffinity",
        {"ignorePreferredTermsOfExistingPods": 2},
    ),
    "share: String should have at least 1 character, not ''": ("GpuShares", {"share": ""}),
    "minCandidateNodesPercentage: Input should be less than or equal to 100, not 101; "
    "minCandidateNodesAbsolute: Input should be greater than or equal to 0, not -5": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -5},
    ),
}


FIELDS = {
    "DefaultPreemption": {"min_candidate_nodes_percentage": 5, "min_candidate_nodes_absolute": 7},
    "DynamicResources": {"filter_timeout": "1s", "binding_timeout": "1h1m"},
    "GpuShares": {"count_resource": "a", "share": "b", "index_annotation": "c", "shares_are_annotations": True},
    "InterPodAffinity": {"hard_pod_affinity_weight": 3, "ignore_preferred_terms_of_existing_pods": True},
    "NodeAffinity": {"added_affinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
    "NodeResourcesBalancedAllocation": {"resources": [{"name": "cpu", "weight": 2}]},
    "NodeResourcesFit": {
        "ignored_resources": ["a/b"],
        "ignored_resource_groups": ["c"],
        "scoring_strategy": {
            "type": "MostAllocated",
            "resources": [{"name": "cpu", "weight": 2}],
            "requestedToCapacityRatio": {"shape": SHAPE},
        },
    },
    "PodTopologySpread": {"default_constraints": [CONSTRAINT], "defaulting_type": "List"},
    "VolumeBinding": {"bind_timeout_seconds": 3},
}


def plugin(name):
    return dict(registry.default_registry())[name]


@pytest.mark.parametrize(("name", "written", "values"), READ.values(), ids=READ)
def test_values_that_fit(name, written, values):
    found = arguments(plugin(name), written)
    assert differing(found) == values
    assert shown(found) == shown(plugin(name)().arguments) | values
    assert arguments(plugin(name), differing(found)) == found


@pytest.mark.parametrize(
    "name", [name for name, each in registry.default_registry().items() if each.arguments_model is not BuiltInArguments]
)
def test_every_field_is_read_by_its_name_in_files_and_in_python(name):
    written = FIELDS[name]
    fields = structs.fields(plugin(name).arguments_model)
    assert sorted(written) == sorted(field.name for field in fields)
    in_files = {field.encode_name: written[field.name] for field in fields}
    assert shown(arguments(plugin(name), in_files)) == shown(arguments(plugin(name), written)) == in_files


@pytest.mark.parametrize(("sentence", "name", "written"), [(sentence, *given) for sentence, given in REFUSED.items()], ids=REFUSED)
def test_values_that_do_not_fit(sentence, name, written):
    with pytest.raises(UsageError) as refused:
        arguments(plugin(name), written)
    assert str(refused.value) == f"arguments of plugin {name}: {sentence}"
