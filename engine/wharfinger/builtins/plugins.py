"""Names of Kubernetes' score plugins that `base kubernetes { … }` may reweigh, with the argument names each takes.

The plugins themselves live in the framework, above this layer; a test compares this table with the registry.
"""

from __future__ import annotations

from collections.abc import Mapping

SCORE_PLUGINS: Mapping[str, frozenset[str]] = {
    "ImageLocality": frozenset(),
    "InterPodAffinity": frozenset({"hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"}),
    "NodeAffinity": frozenset({"addedAffinity"}),
    "NodeResourcesBalancedAllocation": frozenset({"resources"}),
    "NodeResourcesFit": frozenset({"strategy", "resources", "shape"}),
    "PodTopologySpread": frozenset({"defaultConstraints", "defaultingType"}),
    "TaintToleration": frozenset(),
}
