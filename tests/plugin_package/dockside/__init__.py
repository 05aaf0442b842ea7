"""A plugin package as somebody else would publish it: no more than this module and its entry points."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from wharfinger.framework.extension import Arguments, FilterPlugin, ScorePlugin
from wharfinger.framework.verdict import Reason, single
from wharfinger.language.semantics.catalogue import Volatility


class DraftArguments(Arguments):
    """How many pods a berth takes."""

    most_pods: int = Field(default=2, ge=1)


class Draft(FilterPlugin, ScorePlugin):
    """Rejects nodes with too many pods, and likes those with few."""

    name = "Draft"
    arguments_model = DraftArguments
    filter_volatility = Volatility.ROW
    score_volatility = Volatility.ROW
    default_weight = 7

    def filter(self, cycle, pod, snapshot, rows):
        """The verdicts for `rows`."""
        return single(Reason("node(s) lay too deep"), snapshot.pod_count[rows] >= self.arguments.most_pods)

    def score(self, cycle, pod, snapshot, rows):
        """Points for `rows`: 100 for an empty node."""
        return np.maximum(0, 100 - 10 * snapshot.pod_count[rows])
