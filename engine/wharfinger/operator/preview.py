"""The reconciler of PlacementPreviews: where the scheduler would place some pods now.

The decisions are those of a dry run, on a copy of the live cluster at one moment, computed in short slices between which the scheduler
runs. A preview is answered again when the cluster has changed, and deleted when it has expired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from wharfinger.crd.fields import Condition
from wharfinger.crd.placement_preview import MOST_PLACEMENTS, MOST_RULES, NearestMiss, PlacementCount, PlacementPreviewSpec, RuleCount
from wharfinger.errors import UnknownObject, WharfingerError
from wharfinger.event_loop import in_slices
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.ports import Clock, WriteFailed
from wharfinger.kube import refusals
from wharfinger.kube.custom_resources import ObjectWriter, PlacementPreview
from wharfinger.kube.refusals import ApiError
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.model import objects
from wharfinger.model.objects.metadata import time_text
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import copied
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.operator.app_objects import remove
from wharfinger.operator.conditions import condition, cut, dated, ready
from wharfinger.operator.judgement import Judge
from wharfinger.operator.object_cache import ObjectCache
from wharfinger.operator.preview_question import Questions
from wharfinger.simulate import dry_run

_MOST_REASONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """Why a pod finds no node, for the first such pod."""

    message: str
    rules: tuple[RuleCount, ...]
    nearest: NearestMiss | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Node by pod, None where there is none, in the order of the decisions."""

    nodes: tuple[tuple[str, str | None], ...]
    miss: Miss | None
    policy_revision: str

    def status(self) -> dict[str, Any]:
        """The part of the status that says it."""
        counts = Counter(node for _, node in self.nodes if node is not None)
        ordered = sorted(counts, key=lambda node: (-counts[node], node))
        status: dict[str, Any] = {
            "pods": len(self.nodes),
            "placed": sum(counts.values()),
            "placements": [PlacementCount(node=node, count=counts[node]).plain() for node in ordered[:MOST_PLACEMENTS]],
            "policyRevision": self.policy_revision,
        }
        if len(ordered) > MOST_PLACEMENTS:
            status["moreNodes"] = len(ordered) - MOST_PLACEMENTS
        if self.miss is not None:
            status |= {"message": self.miss.message, "rules": [each.plain() for each in self.miss.rules]}
            if self.miss.nearest is not None:
                status["nearestMiss"] = self.miss.nearest.plain()
        return status


def answered(
    chain: Chain, snapshot: Snapshot, pods: Sequence[PodView], made: Sequence[objects.AnyObject] = (), namespace: str | None = None
) -> Generator[None, None, Answer]:
    """A generator of steps that returns the answer. `made` are objects that come along with the pods: their ReplicaSet, their claims.

    For users of one `namespace` (None: for anyone) disruption budgets of other namespaces do not count: which pods a budget
    covers depends on labels that these users may not see.
    """
    state = yield from copied(snapshot)
    if namespace is not None:
        _forget_budgets_of_others(state, namespace)
    for obj in made:
        state.put(obj)
    nodes: list[tuple[str, str | None]] = []
    miss: Miss | None = None

    def watch(decision: Decision, seen: Snapshot, _evicted: tuple[PodView, ...]) -> Miss | None:
        return _miss(decision, seen) if decision.node is None and miss is None else None

    for outcome in dry_run.place_pods(chain, state, pods, watch=watch):
        nodes.append((outcome.decision.pod.key, outcome.decision.node))
        miss = miss or outcome.seen
        yield
    return Answer(nodes=tuple(nodes), miss=miss, policy_revision=chain.policy_revision)


def _forget_budgets_of_others(state: ClusterState, namespace: str) -> None:
    budgets = [budget for budget in state.objects.all(objects.PodDisruptionBudget) if budget.metadata.namespace != namespace]
    for budget in budgets:
        state.drop("PodDisruptionBudget", objects.key_of(budget))


def _miss(decision: Decision, snapshot: Snapshot) -> Miss:
    told = [each for each in decision.diagnosis.filters if each.alone]
    rules = tuple(
        RuleCount(rule=each.plugin[:253], rejected=each.alone, reasons=_counted(each.reasons))
        for each in sorted(told, key=lambda each: (-each.alone, each.plugin))[:MOST_RULES]
    )
    return Miss(message=cut(decision.message, 4000), rules=rules, nearest=_nearest(decision, snapshot, [each.plugin for each in told]))


def _counted(reasons: Any) -> tuple[str, ...]:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return tuple(cut(f"{count} {text}", 1024) for text, count in ordered[:_MOST_REASONS])


def _nearest(decision: Decision, snapshot: Snapshot, plugins: Sequence[str]) -> NearestMiss | None:
    """The node that fewest filters reject; of equals the first by name."""
    if not snapshot.n_nodes or not plugins:
        return None
    against = np.zeros(snapshot.n_nodes, np.int64)
    for plugin in plugins:
        against += decision.diagnosis.rejected_by(plugin)
    rows = np.flatnonzero(against == against.min()).tolist()
    row = min(rows, key=lambda row: snapshot.names[row])
    reasons = [f"{found.plugin}: {reason}" for found in decision.diagnosis.at(row) for reason in found.reasons]
    return NearestMiss(node=snapshot.names[row], reasons=tuple(cut(reason, 1024) for reason in reasons[:16]))


REFRESH = 3.0
"""Seconds between two answers to the same question at least."""

REST = 4.0
"""After an answer, previews that have one already wait so many times as long as it took: many previews cost a fifth of the time."""

_REASONS: Mapping[type[Exception], str] = {PolicyError: "InvalidPolicy", UnknownObject: "UnknownObject"}
"""Words for why there is no answer; all other errors mean that the question cannot be asked."""

_LATER = (refusals.TooManyRequests, refusals.ServerError, refusals.Unreachable)


class PreviewReconciler:
    """Answers PlacementPreviews."""

    def __init__(self, cache: ObjectCache, writer: ObjectWriter, judge: Judge, questions: Questions, clock: Clock) -> None:
        self._cache = cache
        self._writer = writer
        self._judge = judge
        self._questions = questions
        self._clock = clock
        self._answered: dict[str, tuple[Any, Any]] = {}
        self._rests_until = 0.0

    async def reconcile(self, key: str) -> float | None:
        """Seconds until the next look; None when the preview is gone."""
        preview: PlacementPreview | None = self._cache.get("PlacementPreview", key)
        if preview is None or preview.metadata.deletion_timestamp is not None:
            self._answered.pop(key, None)
            return None
        expires = _expires(preview)
        if self._clock.now() >= expires:
            await remove(self._writer, preview)
            return None
        question = (preview.metadata.uid, preview.metadata.generation)
        revision = self._judge.revision
        began = self._clock.monotonic()
        if self._answered.get(key) != (question, revision):
            is_new = self._answered.get(key, (None,))[0] != question
            if not is_new and began < self._rests_until:
                return self._rests_until - began
            await self._answer(preview, expires)
            self._answered[key] = (question, revision)
            ended = self._clock.monotonic()
            self._rests_until = ended + REST * (ended - began)
        return min(REFRESH, max(expires - self._clock.now(), 0.0))

    async def _answer(self, preview: PlacementPreview, expires: float) -> None:
        meta = preview.metadata
        status: dict[str, Any] = {"observedGeneration": meta.generation, "expiresAt": time_text(expires)}
        try:
            spec = PlacementPreviewSpec.model_validate(preview.spec)
            asked = await self._questions.of(meta, spec)
            sees = None if self._judge.rights.trusted else meta.namespace
            answer = await in_slices(answered(asked.chain, self._judge.snapshot(), asked.pods, asked.made, sees), self._clock)
        except (*_LATER, WriteFailed):
            raise
        except (WharfingerError, ValidationError) as error:
            conditions = unanswered(error)
        else:
            status |= answer.status()
            conditions = conditions_of(answer, asked.note)
        status["conditions"] = dated(conditions, preview.status, meta.generation, self._clock.now())
        if status != preview.status:
            await self._writer.apply_status(preview, status)


def conditions_of(answer: Answer, note: str) -> list[Condition]:
    """The conditions of a preview with an answer; `note` has sentences about how the question was understood, a line each."""
    told = ready(True, "Answered", note) if answer.miss is None else ready(True, "Unschedulable", answer.miss.message)
    return [told, condition("Answered", True, "Answered", note)]


def unanswered(error: WharfingerError | ValidationError) -> list[Condition]:
    """The conditions of a preview without an answer."""
    reason, message = _REASONS.get(type(error), "InvalidQuestion"), str(error)
    if isinstance(error, ApiError):
        reason = error.reason or reason
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        message = f"spec.{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return [ready(False, reason, message), condition("Answered", False, reason, message)]


def _expires(preview: PlacementPreview) -> float:
    created = preview.metadata.creation_timestamp
    return (created.timestamp() if created is not None else 0.0) + float(preview.spec.get("ttlSeconds") or 3600)
