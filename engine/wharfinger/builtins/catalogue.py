"""Everything that a policy may name: attributes of the model, the builtin functions, and Kubernetes' plugins.

The plugins live in the framework, above this layer; a test compares the table here with the registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from wharfinger.builtins import fragmentation, nodes, numbers, points, resources, texts, times
from wharfinger.language.semantics.catalogue import Attribute, Function, PluginRecord, Subject
from wharfinger.model import attributes

PLUGINS: Mapping[str, PluginRecord] = {
    # pkg/scheduler/apis/config/v1/default_plugins.go, Kubernetes 1.36: the order decides which reason a node is counted under.
    "SchedulingGates": PluginRecord(),
    "PrioritySort": PluginRecord(),
    "NodeUnschedulable": PluginRecord(is_filter=True),
    "NodeName": PluginRecord(is_filter=True),
    "TaintToleration": PluginRecord(is_filter=True, weight=3),
    "NodeAffinity": PluginRecord(is_filter=True, weight=2, arguments=frozenset({"addedAffinity"})),
    "NodePorts": PluginRecord(is_filter=True),
    "NodeResourcesFit": PluginRecord(is_filter=True, weight=1, arguments=frozenset({"strategy", "resources", "shape"})),
    "VolumeRestrictions": PluginRecord(is_filter=True),
    "NodeVolumeLimits": PluginRecord(is_filter=True),
    "VolumeBinding": PluginRecord(is_filter=True),
    "VolumeZone": PluginRecord(is_filter=True),
    "PodTopologySpread": PluginRecord(is_filter=True, weight=2, arguments=frozenset({"defaultConstraints", "defaultingType"})),
    "InterPodAffinity": PluginRecord(
        is_filter=True, weight=2, arguments=frozenset({"hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"})
    ),
    "DynamicResources": PluginRecord(is_filter=True, weight=2, arguments=frozenset({"filterTimeout", "bindingTimeout"})),
    "DefaultPreemption": PluginRecord(),
    "NodeResourcesBalancedAllocation": PluginRecord(weight=1, arguments=frozenset({"resources"})),
    "ImageLocality": PluginRecord(weight=1),
    "DefaultBinder": PluginRecord(),
    "NodeDeclaredFeatures": PluginRecord(is_filter=True),
    "GpuShares": PluginRecord(is_filter=True),  # not one of Kubernetes' own
}
"""Every built-in plugin, in the order in which a chain runs them."""

FUNCTIONS = (
    *numbers.NUMBERS,
    *texts.STRINGS,
    *texts.VERSIONS,
    *texts.QUANTITIES,
    *texts.HASHES,
    *nodes.TAINTS,
    *nodes.AFFINITY,
    *resources.RESOURCES,
    *points.SPREADING,
    *fragmentation.FRAGMENTATION,
    *points.PLUGIN_POINTS,
    *nodes.IMAGES,
    *times.TIMES,
    *resources.METRICS,
)


class Builtins:
    """The catalogue of the language (`language.semantics.catalogue.Catalogue`), in the order of the reference page."""

    @cached_property
    def _functions(self) -> dict[str, Function]:
        return {function.name: function for function in FUNCTIONS}

    @cached_property
    def _attributes(self) -> dict[tuple[Subject, str], Attribute]:
        return {(attribute.subject, attribute.path): attribute for attribute in attributes.ATTRIBUTES}

    def attribute(self, subject: Subject, path: str) -> Attribute | None:
        """The attribute of that exact path, or None."""
        return self._attributes.get((subject, path))

    def attributes(self, subject: Subject) -> tuple[Attribute, ...]:
        """Every attribute of a subject."""
        return tuple(attribute for (owner, _), attribute in self._attributes.items() if owner is subject)

    def function(self, name: str) -> Function | None:
        """The builtin of that name, or None."""
        return self._functions.get(name)

    def functions(self) -> tuple[Function, ...]:
        """Every builtin."""
        return tuple(self._functions.values())

    def regex_fault(self, pattern: str) -> str | None:
        """The error in a regular expression (not in the syntax of RE2, or too costly), or None."""
        return texts.regex_fault(pattern)

    def regex_steps(self, pattern: str) -> int:
        """The steps of a check that it takes to find this error, or that there is none."""
        return texts.regex_steps(pattern)

    def plugins(self) -> Mapping[str, PluginRecord]:
        """The built-in plugins that filter or score nodes, by name, in the order in which a chain runs them."""
        return {name: record for name, record in PLUGINS.items() if record.is_filter or record.weight is not None}

    def score_plugins(self) -> Mapping[str, PluginRecord]:
        """The score plugins, whose weights `base kubernetes` can set."""
        return {name: record for name, record in PLUGINS.items() if record.weight is not None}


CATALOGUE = Builtins()
