"""The reconciler of PlacementPreviews: answers, answers again when the cluster has changed, and deletes what has had its time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from wharfinger.crd.parts import Condition
from wharfinger.crd.preview import PlacementPreviewSpec
from wharfinger.errors import UnknownObject, WharfingerError
from wharfinger.framework.ports import Clock, WriteFailed
from wharfinger.kube import refusals
from wharfinger.kube.custom_resources import PlacementPreview
from wharfinger.kube.object_writer import ObjectWriter
from wharfinger.kube.refusals import ApiError
from wharfinger.language.diagnostics import PolicyError
from wharfinger.model.timestamps import time_text
from wharfinger.reconcile.applying import remove
from wharfinger.reconcile.conditions import condition, dated, ready
from wharfinger.reconcile.judgement import Judge
from wharfinger.reconcile.object_cache import ObjectCache
from wharfinger.reconcile.preview_answer import Answer, answered
from wharfinger.reconcile.preview_question import Questions
from wharfinger.reconcile.slices import in_slices

REFRESH = 3.0
"""Seconds between two answers to the same question at least."""

REST = 4.0
"""After an answer, questions that have one already wait for so many times as long as it took: many previews cost a fifth of the time."""

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
    """What is stated about a preview that has an answer; `note` is sentences about how the question was taken, a line each."""
    told = ready(True, "Answered", note) if answer.miss is None else ready(True, "Unschedulable", answer.miss.message)
    return [told, condition("Answered", True, "Answered", note)]


def unanswered(error: WharfingerError | ValidationError) -> list[Condition]:
    """What is stated about a preview that has no answer."""
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
