"""The conditions of a PlacementPreview: the worst first."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from msgspec import structs
from pydantic import ValidationError

from tests.in_memory import ManualClock
from wharfinger.crd.models import PlacementPreviewSpec
from wharfinger.emit import ignore
from wharfinger.errors import InvalidObject, UnknownObject, UsageError
from wharfinger.kube.api_errors import Forbidden, TooManyRequests
from wharfinger.kube.custom_resources import PlacementPreview
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.language.semantics.authority import CLUSTER
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.operator import preview
from wharfinger.operator.controller import Controller
from wharfinger.operator.preview import (
    FIRST_ANSWER_CREDIT,
    FIRST_ANSWERS_CREDIT,
    PAUSE_RATIO,
    REFRESH,
    WAITING_NOTICE,
    Pauses,
    PreviewReconciler,
    conditions_of,
    unanswered,
)
from wharfinger.operator.preview_answer import Answer, Miss
from wharfinger.operator.preview_question import compiled

SHOP, BANK = "shop", "bank"
NONE = Miss(message="0/2 nodes are available: 2 Insufficient cpu.", rules=(), nearest=None)


def invalid(spec):
    with pytest.raises(ValidationError) as caught:
        PlacementPreviewSpec.model_validate(spec)
    return caught.value


def broken(text):
    with pytest.raises(PolicyError) as caught:
        compiled(text, {}, CLUSTER)
    return caught.value


def shown(conditions):
    ready, answered = conditions
    assert (ready.type, answered.type) == ("Ready", "Answered")
    return f"{ready.status} {ready.reason} {ready.message}".strip(), answered.status


@pytest.mark.parametrize(
    ("miss", "note", "reported"),
    [
        (None, "", "True Answered"),
        (None, "the answer is for wharfinger", "True Answered the answer is for wharfinger"),
        (NONE, "the answer is for wharfinger", f"True Unschedulable {NONE.message}"),
    ],
)
def test_an_answer_is_a_condition_with_the_reason_if_pods_have_no_place(miss, note, reported):
    assert shown(conditions_of(Answer(nodes=(), miss=miss, policy_revision="r"), note)) == (reported, "True")


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (UnknownObject("there is no Job none in namespace default"), "UnknownObject there is no Job none in namespace default"),
        (UsageError("more than 1,000 pods"), "InvalidQuestion more than 1,000 pods"),
        (InvalidObject("template: spec.containers: expected an array"), "InvalidQuestion template: spec.containers: expected an array"),
        (Forbidden("jobs are forbidden", status=403, reason="Forbidden"), "Forbidden jobs are forbidden"),
        (invalid({"replicas": 0}), "InvalidQuestion spec.replicas: Input should be greater than or equal to 1"),
        (broken('policy "p"\nscore s = nod.x\n'), "InvalidPolicy policy:2:11: P301: there is no `nod`"),
    ],
)
def test_a_question_that_cannot_be_answered(error, reported):
    assert shown(unanswered(error)) == (f"False {reported}", "False")


def test_answers_are_renewed_after_a_pause():
    rests = Pauses()
    assert rests.left(SHOP, 100.0, is_new=False) <= 0
    rests.add(SHOP, 1.0, 101.0)
    assert rests.left(SHOP, 101.0, is_new=False) == rests.left(BANK, 101.0, is_new=False) == PAUSE_RATIO


def test_many_new_questions_of_one_namespace_wait_and_those_of_another_do_not():
    rests, now = Pauses(), 100.0
    while rests.left(SHOP, now, is_new=True) <= 0:
        rests.add(SHOP, 0.1, now + 0.1)
        now += 0.1
    assert now - 100.0 < FIRST_ANSWER_CREDIT
    assert rests.left(BANK, now, is_new=True) <= 0


def test_new_questions_of_many_namespaces_wait_too():
    rests, now = Pauses(), 100.0
    for number in range(1000):
        if rests.left(f"n{number}", now, is_new=True) > 0:
            break
        rests.add(f"n{number}", 1.0, now + 1.0)
        now += 1.0
    assert now - 100.0 <= FIRST_ANSWERS_CREDIT / (PAUSE_RATIO - 1)


class OnePreview:
    """A preview in memory, which cannot be answered: its cache, the writer of its status, and its questions."""

    def __init__(self, created, ttl):
        metadata = ObjectMeta(name="p", namespace=SHOP, uid="u", generation=1, creation_timestamp=datetime.fromtimestamp(created, UTC))
        self.found = PlacementPreview(metadata=metadata, spec={"ttlSeconds": ttl})

    def get(self, _kind, _key):
        return self.found

    async def delete(self, _preview):
        self.found = None

    async def apply_status(self, _preview, _status):
        pass

    seconds = 0.0

    async def of(self, *_):
        raise UsageError("it cannot be answered")


@pytest.mark.parametrize("created", [0.0, 86_400.0], ids=["created now", "created in the future"])
@pytest.mark.parametrize("put_back", [0.0, 86_400.0], ids=["the time of day goes on", "the time of day is put back"])
def test_a_preview_expires_after_its_time(created, put_back):
    clock = ManualClock()
    preview = OnePreview(clock.now() + created, ttl=60)
    previews = PreviewReconciler(preview, preview, SimpleNamespace(revision=1), preview, clock)

    async def story():
        assert await previews.reconcile("shop/p") > 0
        clock.jump(-put_back)
        clock.move(58.0)
        assert await previews.reconcile("shop/p") == pytest.approx(2.0)
        clock.move(2.0)
        assert await previews.reconcile("shop/p") is None
        assert preview.found is None

    asyncio.run(story())


@pytest.mark.parametrize("ttl", [None, "soon", "\x00", 10**400, -1, 0, {}, [], 1e308])
def test_a_preview_whose_lifetime_cannot_be_read_has_the_usual_one(ttl):
    clock = ManualClock()
    preview = OnePreview(clock.now(), ttl=ttl)
    previews = PreviewReconciler(preview, preview, SimpleNamespace(revision=1), preview, clock)
    assert asyncio.run(previews.reconcile("shop/p")) == REFRESH
    clock.move(3600.0)
    assert asyncio.run(previews.reconcile("shop/p")) is None
    assert preview.found is None


def test_an_error_in_the_scheduler_itself_is_told_without_its_text_and_tried_again():
    written = []

    class Broken(OnePreview):
        async def apply_status(self, preview, status):
            written.append(status)
            self.found = structs.replace(preview, status=status)

        async def of(self, *_):
            raise TypeError("the annotation of bank/vault")

    clock = ManualClock()
    preview = Broken(clock.now(), ttl=60)
    previews = PreviewReconciler(preview, preview, SimpleNamespace(revision=1), preview, clock)
    for _ in range(2):
        with pytest.raises(TypeError):
            asyncio.run(previews.reconcile("shop/p"))
    (status,) = written
    assert shown_status(status) == "False InternalError"
    assert "TypeError" in status["conditions"][0]["message"]
    assert "bank" not in str(status)


class SlowAnswers:
    """Previews of several namespaces in memory: their cache, the writer of their statuses, and their questions.

    Each answer has `steps` steps, which take `STEP` seconds each by the clock. Between two slices of them `between` seconds pass.
    """

    STEP = 0.003

    def __init__(self, monkeypatch, *namespaces, steps=1, between=0.003):
        self.clock = ManualClock()
        self.revision = 1
        self.rights = SimpleNamespace(trusted=False)
        self.seconds = 0.0
        self.written = []
        self._steps, self._between = steps, between
        self.found = {f"{each}/p": PlacementPreview(metadata=self._meta(each, 1), spec={"ttlSeconds": 3600}) for each in namespaces}
        self.reconciler = PreviewReconciler(self, self, self, self, self.clock)
        monkeypatch.setattr(preview, "answer_preview", lambda *_: self._answering())

    def _meta(self, namespace, generation):
        created = datetime.fromtimestamp(self.clock.now(), UTC)
        return ObjectMeta(name="p", namespace=namespace, uid=namespace, generation=generation, creation_timestamp=created)

    def _answering(self):
        for _ in range(self._steps):
            self.clock.move(self.STEP)
            yield
        return Answer(nodes=(), miss=None, policy_revision=f"r{self.revision}")

    def snapshot(self):
        return None

    def get(self, _kind, key):
        return self.found[key]

    async def apply_status(self, found, status):
        key = f"{found.metadata.namespace}/p"
        self.written.append((key, shown_status(status)))
        self.found[key] = structs.replace(found, status=status)

    async def of(self, *_):
        return SimpleNamespace(chain=None, pods=(), made=(), what_if=None, note="")

    def edit(self, namespace):
        key = f"{namespace}/p"
        self.found[key] = structs.replace(self.found[key], metadata=self._meta(namespace, self.found[key].metadata.generation + 1))

    async def during(self, work):
        """What the work returns, while time passes for all who sleep."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.sleep(0)
            if not task.done():
                self.clock.move(self._between)
        return task.result()


def shown_status(status):
    (found,) = (each for each in status["conditions"] if each["type"] == "Answered")
    return f"{found['status']} {found['reason']}"


def test_the_pause_after_an_answer_follows_its_work_and_not_how_busy_the_scheduler_was(monkeypatch):
    world = SlowAnswers(monkeypatch, SHOP, steps=100, between=1.0)

    async def story():
        began = world.clock.monotonic()
        await world.during(world.reconciler.reconcile("shop/p"))
        assert world.clock.monotonic() - began > 100 * PAUSE_RATIO * world.STEP
        world.revision += 1
        assert await world.reconciler.reconcile("shop/p") == pytest.approx(100 * PAUSE_RATIO * world.STEP)

    asyncio.run(story())


def test_a_preview_that_waits_for_the_pause_of_its_namespace_says_so_once_and_is_answered_in_the_end(monkeypatch):
    world = SlowAnswers(monkeypatch, SHOP, BANK, steps=1000)

    async def story():
        await world.during(world.reconciler.reconcile("shop/p"))
        world.edit(SHOP)
        waited = 0.0
        while (rest := await world.during(world.reconciler.reconcile("shop/p"))) > REFRESH or len(world.written) < 3:
            assert rest > 0
            waited += rest
            world.clock.move(rest)
        assert world.written == [("shop/p", "True Answered"), ("shop/p", "Unknown Waiting"), ("shop/p", "True Answered")]
        assert waited == pytest.approx(1000 * PAUSE_RATIO * world.STEP - FIRST_ANSWER_CREDIT)
        await world.during(world.reconciler.reconcile("bank/p"))  # another namespace does not wait
        assert world.written[-1] == ("bank/p", "True Answered")

    asyncio.run(story())


def test_a_preview_that_waits_for_the_answer_to_another_says_so(monkeypatch):
    world = SlowAnswers(monkeypatch, SHOP, BANK, steps=10)

    async def story():
        first = asyncio.ensure_future(world.reconciler.reconcile("shop/p"))
        await asyncio.sleep(0)
        assert [await world.reconciler.reconcile("bank/p") for _ in range(2)] == [1.0, 1.0]
        assert world.written == []
        world.clock.move(WAITING_NOTICE)
        assert await world.reconciler.reconcile("bank/p") == 1.0
        assert world.written == [("bank/p", "Unknown Waiting")]
        await world.during(first)
        await world.during(world.reconciler.reconcile("bank/p"))
        assert world.written == [("bank/p", "Unknown Waiting"), ("shop/p", "True Answered"), ("bank/p", "True Answered")]

    asyncio.run(story())


def test_the_answer_of_a_former_leader_stays_while_the_next_one_is_waited_for(monkeypatch):
    world = SlowAnswers(monkeypatch, SHOP, steps=1000)

    async def story():
        await world.during(world.reconciler.reconcile("shop/p"))
        later = PreviewReconciler(world, world, world, world, world.clock)
        later._pauses = world.reconciler._pauses
        assert await later.reconcile("shop/p") > WAITING_NOTICE
        world.clock.move(WAITING_NOTICE)
        assert await later.reconcile("shop/p") > 0
        assert world.written == [("shop/p", "True Answered")]

    asyncio.run(story())


def test_a_status_that_cannot_be_written_is_tried_less_and_less_often(monkeypatch):
    """The pause after each answer is no success."""
    world = SlowAnswers(monkeypatch, SHOP, steps=100)
    tried = []

    async def refuse(*_):
        tried.append(world.clock.monotonic())
        raise TooManyRequests("!", status=429)

    async def story():
        await world.during(world.reconciler.reconcile("shop/p"))
        monkeypatch.setattr(world, "apply_status", refuse)
        world.revision += 1
        controller = Controller(
            "previews", world.reconciler, lambda: ["shop/p"], clock=world.clock, leadership=SimpleNamespace(is_leader=True), emit=ignore
        )
        running = asyncio.ensure_future(controller.run())
        controller.resume()
        began = world.clock.monotonic()
        while world.clock.monotonic() - began < 60.0:
            await world.during(asyncio.sleep(0))
            world.clock.move(0.01)
        controller.stop()
        await world.during(running)

    asyncio.run(story())
    assert len(tried) < 20  # 5 ms, 10 ms, … 40 s after the former failure, and each after a pause of 1.2 s
