"""Everything that a policy may name: attributes of the model, the builtin functions, and Kubernetes' score plugins.

The score plugins live in the framework, above this layer; a test compares the table here with the registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from wharfinger.builtins import fragmentation, nodes, numbers, points, resources, texts, times
from wharfinger.language.semantics.catalogue import Attribute, Function, Subject
from wharfinger.model import attributes

SCORE_PLUGINS: Mapping[str, frozenset[str]] = {
    "DynamicResources": frozenset({"filterTimeout", "bindingTimeout"}),
    "ImageLocality": frozenset(),
    "InterPodAffinity": frozenset({"hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"}),
    "NodeAffinity": frozenset({"addedAffinity"}),
    "NodeResourcesBalancedAllocation": frozenset({"resources"}),
    "NodeResourcesFit": frozenset({"strategy", "resources", "shape"}),
    "PodTopologySpread": frozenset({"defaultConstraints", "defaultingType"}),
    "TaintToleration": frozenset(),
}


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
        """What is wrong with a regular expression: no RE2 syntax, or too costly; None if nothing."""
        return texts.regex_fault(pattern)

    def score_plugins(self) -> Mapping[str, frozenset[str]]:
        """Names of the built-in score plugins that `base kubernetes` may reweigh, each with the argument names it takes."""
        return SCORE_PLUGINS


CATALOGUE = Builtins()
