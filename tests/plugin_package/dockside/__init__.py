"""A plugin package as a third party would publish it: no more than this module and its entry points."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from wharfinger.framework.extension import Arguments, FilterPlugin, ScorePlugin
from wharfinger.framework.prepared import PreparedFilter, PreparedScore, Reason
from wharfinger.language.semantics.catalogue import Volatility


class DraftArguments(Arguments):
    """The number of pods that a berth takes."""

    most_pods: int = Field(default=2, ge=1)


class Draft(FilterPlugin, ScorePlugin):
    """Rejects nodes with too many pods, and likes those with few."""

    name = "Draft"
    arguments_model = DraftArguments
    filter_volatility = Volatility.ROW
    score_volatility = Volatility.ROW
    default_weight = 7

    def prepare_filter(self, attempt):
        """The filter for the pods of this pod's template."""
        return TooDeep(self.arguments.most_pods)

    def prepare_score(self, attempt, feasible):
        """The score for the pods of this pod's template."""
        return Emptiness()


class TooDeep(PreparedFilter):
    """Rejects nodes with too many pods."""

    reasons = (Reason("node(s) lay too deep"),)

    def __init__(self, most_pods):
        self.most_pods = most_pods

    def bits(self, snapshot, rows):
        """The verdicts for `rows`."""
        return snapshot.pod_count[rows] >= self.most_pods


class Emptiness(PreparedScore):
    """Likes nodes with few pods."""

    def raw(self, snapshot, rows):
        """Points for `rows`: 100 for an empty node."""
        return np.maximum(0, 100 - 10 * snapshot.pod_count[rows])
