"""The reconciler of PlacementPreviews: where the scheduler would place some pods now.

The decisions are those of a dry run, on a copy of the live cluster at one moment, computed in short slices between which the scheduler
runs. A preview is answered again when the cluster has changed, and deleted when it has expired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from wharfinger.crd.models import MAX_LIFETIME, Condition, PlacementPreviewSpec
from wharfinger.errors import UnknownObject, WharfingerError
from wharfinger.event_loop import TimedSteps, in_slices
from wharfinger.framework.ports import Clock, WriteFailed
from wharfinger.kube import api_errors
from wharfinger.kube.api_errors import ApiError
from wharfinger.kube.custom_resources import ObjectWriter, PlacementPreview
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.model.objects.metadata import time_text
from wharfinger.operator.app_objects import remove
from wharfinger.operator.controller import ObjectCache, Postponed, condition, invalid_field, ready, with_transition_times
from wharfinger.operator.policy_checks import PolicyChecks
from wharfinger.operator.preview_answer import Answer, answer_preview
from wharfinger.operator.preview_question import Questions

_DEFAULT_LIFETIME = float(PlacementPreviewSpec.model_fields["ttl_seconds"].default)

REFRESH = 3.0
"""The minimum time between two answers to the same question, in seconds."""

PAUSE_RATIO = 4.0
"""An answer is followed by a pause that is this many times as long as its computation: answers take at most a fifth of the time."""

FIRST_ANSWER_CREDIT = 5.0
"""Seconds of the pause of its namespace that a new question need not wait for."""

FIRST_ANSWERS_CREDIT = 120.0
"""The same for the pause of all namespaces: three of the longest answers."""

WAITING_NOTICE = 5.0
"""Seconds after which the status of a new question says that it waits."""

CHECKS_PER_SECOND = 100
"""The maximum number of waiting questions that are checked again in a second while another is being answered."""

_REASONS: Mapping[type[Exception], str] = {PolicyError: "InvalidPolicy", UnknownObject: "UnknownObject"}
"""Reasons for which there is no answer, by error; that of any other error is `InvalidQuestion`."""


class Pauses:
    """The pauses after answers, for all namespaces and for each: many questions of one namespace do not delay those of others."""

    def __init__(self) -> None:
        self._until = 0.0
        self._until_of: dict[str, float] = {}

    def left(self, namespace: str, now: float, *, is_new: bool) -> float:
        """Seconds to wait before a question of a namespace is answered; a new one waits less."""
        if not is_new:
            return self._until - now
        own = self._until_of.get(namespace, 0.0) - FIRST_ANSWER_CREDIT
        return max(own, self._until - FIRST_ANSWERS_CREDIT) - now

    def add(self, namespace: str, seconds: float, ended: float) -> None:
        """Count the work of an answer, in seconds, that ended at this time."""
        pause = PAUSE_RATIO * seconds
        self._until = max(self._until, ended) + pause
        self._until_of = {known: until for known, until in self._until_of.items() if until > ended}
        self._until_of[namespace] = max(self._until_of.get(namespace, 0.0), ended) + pause


class PreviewReconciler:
    """Answers PlacementPreviews, one at a time. It may be called for others meanwhile."""

    def __init__(self, cache: ObjectCache, writer: ObjectWriter, checks: PolicyChecks, questions: Questions, clock: Clock) -> None:
        self._cache = cache
        self._writer = writer
        self._checks = checks
        self._questions = questions
        self._clock = clock
        self._answered: dict[str, tuple[Any, Any]] = {}
        self._first_seen: dict[str, tuple[str, float]] = {}  # by key: the uid, and a monotonic time
        self._waiting: dict[str, tuple[Any, float]] = {}  # by key: the new question, and the monotonic time since when it waits
        self._answering = False
        self._pauses = Pauses()

    async def reconcile(self, key: str) -> float | None:
        """Seconds until the next reconcile; None if the preview is deleted."""
        preview: PlacementPreview | None = self._cache.get("PlacementPreview", key)
        if preview is None or preview.metadata.deletion_timestamp is not None:
            for known in (self._answered, self._first_seen, self._waiting):
                known.pop(key, None)
            return None
        left = self._seconds_left(key, preview)
        if left <= 0:
            await remove(self._writer, preview)
            return None
        question = (preview.metadata.uid, preview.metadata.generation)
        revision = self._checks.revision
        if self._answered.get(key) != (question, revision):
            is_new = self._answered.get(key, (None,))[0] != question
            seconds = self._seconds_to_wait(preview.metadata.namespace, is_new=is_new)
            if seconds > 0:
                return Postponed(min(left, await self._wait(key, preview, seconds) if is_new else seconds))
            self._waiting.pop(key, None)
            self._answering = True
            try:
                await self._answer(preview)
            finally:
                self._answering = False
            self._answered[key] = (question, revision)
        return min(REFRESH, max(self._seconds_left(key, preview), 0.0))

    def _seconds_to_wait(self, namespace: str, *, is_new: bool) -> float:
        """Seconds until a question of a namespace may be answered, or is checked again; 0 or less if it may be answered now."""
        if self._answering:
            return max(1.0, len(self._waiting) / CHECKS_PER_SECOND)
        return self._pauses.left(namespace, self._clock.monotonic(), is_new=is_new)

    async def _wait(self, key: str, preview: PlacementPreview, seconds: float) -> float:
        """Seconds until a new question that waits for `seconds` is checked again. If it waits long, its status says so, once."""
        meta, now = preview.metadata, self._clock.monotonic()
        question = (meta.uid, meta.generation)
        known, since = self._waiting.get(key, (None, now))
        if known != question:
            since = now
            self._waiting[key] = question, since
        notice = since + WAITING_NOTICE - now
        if preview.status.get("observedGeneration") == meta.generation:  # it says so already, or a former leader has answered
            return seconds
        if notice > 0:
            return min(seconds, notice)
        await self._write(preview, {}, waiting(meta.namespace))
        return seconds

    def _seconds_left(self, key: str, preview: PlacementPreview) -> float:
        """Seconds until a preview expires: at its time, and no later than its `ttlSeconds` after this process has seen it.

        So a preview expires too if the time of day is put back, or if its creation is in the future by the time of day here.
        """
        uid, now = preview.metadata.uid, self._clock.monotonic()
        known, since = self._first_seen.get(key, ("", 0.0))
        if known != uid:
            since = now
            self._first_seen[key] = uid, since
        return min(_expires(preview) - self._clock.now(), since + _ttl(preview) - now)

    async def _answer(self, preview: PlacementPreview) -> None:
        """Write the answer. Only the time of its computation counts for the pause after it, without the waits between its steps."""
        meta, of_questions = preview.metadata, self._questions.seconds
        steps: TimedSteps[Answer] | None = None
        found: dict[str, Any] = {}
        try:
            spec = PlacementPreviewSpec.model_validate(preview.spec)
            asked = await self._questions.of(meta, spec)
            sees = None if self._checks.rights.trusted else meta.namespace
            steps = TimedSteps(
                answer_preview(asked.chain, self._checks.snapshot(), asked.pods, asked.made, sees, asked.what_if), self._clock
            )
            answer = await in_slices(steps.run(), self._clock)
        except (*api_errors.TRANSIENT, WriteFailed):
            raise
        except (WharfingerError, ValidationError) as error:
            conditions = unanswered(error)
        except Exception as error:
            await self._write(preview, {}, internal_error(error))
            raise
        else:
            found = answer.status()
            conditions = conditions_of(answer, asked.note)
        finally:
            seconds = self._questions.seconds - of_questions + (0.0 if steps is None else steps.seconds)
            self._pauses.add(meta.namespace, seconds, self._clock.monotonic())
        await self._write(preview, found, conditions)

    async def _write(self, preview: PlacementPreview, found: Mapping[str, Any], conditions: Sequence[Condition]) -> None:
        """Write the status, with what was `found`, if it has changed."""
        generation = preview.metadata.generation
        status: dict[str, Any] = {"observedGeneration": generation, "expiresAt": time_text(_expires(preview)), **found}
        status["conditions"] = with_transition_times(conditions, preview.status, generation, self._clock.now())
        if status != preview.status:
            await self._writer.apply_status(preview, status)


def conditions_of(answer: Answer, note: str) -> list[Condition]:
    """The conditions of a preview with an answer; `note` has sentences about how the question was understood, a line each."""
    main = ready(True, "Answered", note) if answer.miss is None else ready(True, "Unschedulable", answer.miss.message)
    return [main, condition("Answered", True, "Answered", note)]


def waiting(namespace: str) -> list[Condition]:
    """The conditions of a preview of a namespace that waits for its answer."""
    message = (
        "previews take at most a fifth of the scheduler's time, and others are answered before this one; for an answer sooner, delete "
        f"other previews of namespace {namespace}, or ask about fewer pods"
    )
    return [ready(None, "Waiting", message), condition("Answered", None, "Waiting", message)]


def unanswered(error: WharfingerError | ValidationError) -> list[Condition]:
    """The conditions of a preview without an answer."""
    reason, message = _REASONS.get(type(error), "InvalidQuestion"), str(error)
    if isinstance(error, ApiError):
        reason = error.reason or reason
    if isinstance(error, ValidationError):
        message = invalid_field(error)
    return [ready(False, reason, message), condition("Answered", False, reason, message)]


def internal_error(error: Exception) -> list[Condition]:
    """The conditions of a preview whose answer ended in an unexpected error. Its text may quote objects of other namespaces."""
    message = f"an error in the scheduler itself ({type(error).__name__}); its log says where, and the question is tried again"
    return [ready(False, "InternalError", message), condition("Answered", False, "InternalError", message)]


def _expires(preview: PlacementPreview) -> float:
    created = preview.metadata.creation_timestamp
    return (created.timestamp() if created is not None else 0.0) + _ttl(preview)


def _ttl(preview: PlacementPreview) -> float:
    """The lifetime in seconds, the default for one that cannot be read."""
    found = preview.spec.get("ttlSeconds")
    return float(found) if isinstance(found, int) and 0 < found <= MAX_LIFETIME else _DEFAULT_LIFETIME
