"""After any failures, a reflector has the objects of the server."""

from __future__ import annotations

import json

import pytest

from tests.unit.kube.conftest import RealClock, Recorder, running, steady, until
from tests.unit.kube.scripted_server import QUIET, Answer, ScriptedServer, Seen, Stream, refused
from wharfinger.errors import WharfingerError
from wharfinger.kube import api_errors
from wharfinger.kube.reflector import Reflector, ReflectorSettings
from wharfinger.kube.wire import NODES, Resource
from wharfinger.model import objects

PATH = NODES.path


def node(name, version="1", **more):
    return {"metadata": {"name": name, "resourceVersion": version, **more}}


def listed(*items, version="10", token=None):
    metadata = {"resourceVersion": version} | ({"continue": token} if token else {})
    return Answer(body={"kind": "NodeList", "metadata": metadata, "items": list(items)})


def event(action, obj):
    return {"type": action, "object": obj}


def bookmark(version, **annotations):
    return event("BOOKMARK", {"metadata": {"resourceVersion": version, "annotations": annotations}})


class Served:
    """Lists and watches of nodes, each with its own script; what either is asked without one hangs."""

    def __init__(self, server: ScriptedServer, lists, watches):
        self._lists, self._watches = list(lists), [*watches, QUIET]
        self.list_queries, self.watch_queries = [], []
        server.on("GET", PATH, self.answer)

    def answer(self, seen: Seen):
        watching = "watch" in seen.query
        (self.watch_queries if watching else self.list_queries).append(seen.query)
        script = self._watches if watching else self._lists
        return script.pop(0) if len(script) > 1 else script[0]


@pytest.fixture
def follow(run):
    """Runs a reflector against scripts of lists and watches until a condition on (recorder, served, clock, reflector) holds."""

    def start(condition, *, lists=(), watches=(), resource=NODES, limits=None, **settings):
        found = []

        async def scenario(server, connection):
            served, recorder, clock = Served(server, lists or [listed()], watches), Recorder(), RealClock()
            reflector = Reflector(connection, resource, recorder, clock, recorder.emit, ReflectorSettings(backoff=steady, **settings))
            async with running(reflector.run()) as task:
                await until(lambda: task.done() or condition(recorder, served))
                if task.done():
                    task.result()
            found.extend((recorder, served, clock, reflector))

        run(scenario, **(limits or {}))
        return found

    return start


def nodes_are(*names):
    return lambda recorder, _: recorder.names("Node") == set(names)


def test_a_watch_goes_on_from_the_list(follow):
    watch = Stream(
        events=[event("ADDED", node("b", "11")), event("MODIFIED", node("a", "12", labels={"k": "v"})), event("DELETED", node("b", "13"))],
        hang=30,
    )
    recorder, served, _, _ = follow(
        lambda recorder, _: ("delete", "b") in recorder.reported, lists=[listed(node("a"), version="10")], watches=[watch]
    )
    assert recorder.objects["Node"]["a"].metadata.labels == {"k": "v"}
    assert recorder.names("Node") == {"a"}
    assert recorder.kinds_synced == ["Node"]
    assert served.watch_queries[0]["resourceVersion"] == "10"
    assert served.watch_queries[0]["allowWatchBookmarks"] == "true"
    assert 300 <= int(served.watch_queries[0]["timeoutSeconds"]) <= 600
    assert recorder.reports == []


@pytest.mark.parametrize(
    "broken", [Stream(events=[event("ADDED", node("b", "17"))]), Stream(events=[event("ADDED", node("b", "17"))], cut=True)]
)
def test_a_dropped_watch_goes_on_from_the_last_event(follow, broken):
    _, served, _, reflector = follow(lambda _, served: len(served.watch_queries) == 2, watches=[broken])
    assert served.watch_queries[1]["resourceVersion"] == "17"
    assert reflector.lists == 1


def test_bookmarks_move_the_version(follow):
    _, served, _, _ = follow(lambda _, served: len(served.watch_queries) == 2, watches=[Stream(events=[bookmark("99")])])
    assert served.watch_queries[1]["resourceVersion"] == "99"


def test_a_silent_watch_is_taken_for_dead(follow):
    recorder, served, _, _ = follow(
        nodes_are("z"),
        watches=[Stream(events=[bookmark("20")], hang=30), Stream(events=[event("ADDED", node("z", "21"))], hang=30)],
        limits={"watch_silence": 0.05},
    )
    assert served.watch_queries[1]["resourceVersion"] == "20"
    assert isinstance(recorder.reports[0][1], api_errors.Unreachable)


def test_silence_is_no_failure_where_the_server_sends_no_bookmarks(follow):
    recorder, served, clock, reflector = follow(
        nodes_are("z"),
        watches=[Stream(events=[], hang=30), Stream(events=[], hang=30), Stream(events=[event("ADDED", node("z", "21"))], hang=30)],
        limits={"watch_silence": 0.05},
    )
    assert [query["resourceVersion"] for query in served.watch_queries[:3]] == ["10", "10", "10"]
    assert reflector.lists == 1
    assert (recorder.reports, clock.waits) == ([], [])


def test_a_list_that_stops_in_the_middle_is_a_failure(follow):
    recorder, _, _, _ = follow(
        nodes_are("b"),
        lists=[listed(node("b"))],
        watches=[Stream(events=[event("ADDED", node("a", "9"))], hang=30)],
        limits={"watch_silence": 0.05},
        streaming=True,
    )
    assert isinstance(recorder.reports[0][1], api_errors.SilentWatch)


def test_half_an_event_is_not_an_event(follow):
    half = json.dumps(event("ADDED", node("half", "15"))).encode()[:-9]
    recorder, served, _, _ = follow(lambda _, served: len(served.watch_queries) == 2, watches=[Stream(events=[half])])
    assert recorder.names("Node") == set()
    assert served.watch_queries[1]["resourceVersion"] == "10"


@pytest.mark.parametrize(
    "gone",
    [
        refused(410, "Expired"),
        Stream(
            events=[event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})], hang=30
        ),
    ],
)
def test_a_forgotten_version_means_a_new_list(follow, gone):
    recorder, served, _, _ = follow(nodes_are("c"), lists=[listed(node("a"), node("b")), listed(node("c"), version="50")], watches=[gone])
    assert recorder.reported.count(("replace", "Node")) == 2
    assert recorder.kinds_synced == ["Node"]
    assert [query.get("resourceVersion") for query in served.watch_queries][:1] == ["10"]


def test_another_error_event_is_waited_out_and_the_watch_goes_on(follow):
    failed = Stream(events=[event("ADDED", node("b", "12")), event("ERROR", {"code": 500, "message": "etcd is unwell"})], hang=30)
    recorder, served, clock, _ = follow(lambda _, served: len(served.watch_queries) == 2, watches=[failed])
    assert served.watch_queries[1]["resourceVersion"] == "12"
    assert isinstance(recorder.reports[0][1], api_errors.ServerError)
    assert clock.waits == [0.2]


def test_a_list_comes_in_pages(follow):
    _, served, _, _ = follow(
        nodes_are("a", "b", "c"),
        lists=[listed(node("a"), token="p2"), listed(node("b"), token="p3"), listed(node("c"))],
        page_size=1,
    )
    assert [query.get("continue") for query in served.list_queries] == [None, "p2", "p3"]
    assert {query["limit"] for query in served.list_queries} == {"1"}


def test_a_page_that_came_too_late_means_everything_at_once(follow):
    recorder, served, _, _ = follow(
        nodes_are("a", "b"),
        lists=[listed(node("gone"), token="p2"), refused(410, "Expired"), listed(node("a"), node("b"))],
        page_size=1,
    )
    assert "limit" not in served.list_queries[-1]
    assert recorder.reported == [("replace", "Node")]


@pytest.mark.parametrize(
    ("refusal", "least"),
    [
        ([refused(429, "TooManyRequests", Retry_After="7")], 7.0),
        ([refused(500)], 0.2),
        ([refused(503)], 0.2),
        ([Answer(dropped=True)] * 2, 0.2),  # aiohttp itself repeats idempotent requests once
    ],
)
def test_a_refused_list_is_asked_for_again_after_a_wait(follow, refusal, least):
    recorder, _, clock, _ = follow(nodes_are("a"), lists=[*refusal, listed(node("a"))])
    assert clock.waits[0] >= least
    assert len(recorder.reports) == 1


def test_waits_double_up_to_a_limit_and_start_anew_after_success(follow):
    _, _, clock, _ = follow(nodes_are("a"), lists=[*[refused(500)] * 8, listed(node("a"))])
    assert clock.waits == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0])


def test_watches_that_end_at_once_are_not_asked_for_in_a_loop(follow):
    _, _, clock, _ = follow(lambda _, served: len(served.watch_queries) == 4, watches=[Stream(), Stream(), Stream()])
    assert clock.waits[:2] == [0.2, 0.4]


def test_watches_that_work_for_a_while_are_begun_again_without_ever_longer_waits(follow, monkeypatch):
    monkeypatch.setattr("wharfinger.kube.reflector._SHORT_WATCH", 0.02)
    _, _, clock, _ = follow(lambda _, served: len(served.watch_queries) == 5, watches=[Stream(hang=0.05, cut=True)] * 4)
    assert clock.waits == [0.2] * 4


def test_an_unreadable_object_is_reported_and_passed_over(follow):
    bad = {"metadata": {"name": "bad", "resourceVersion": "11"}, "status": {"allocatable": {"cpu": "many"}}}
    recorder, _, _, reflector = follow(
        nodes_are("a", "good"),
        lists=[listed(node("a"), bad)],
        watches=[Stream(events=[event("MODIFIED", bad), event("ADDED", node("good", "12"))], hang=30)],
    )
    assert len(recorder.reports) == 2
    assert "bad" in str(recorder.reports[0][1])
    assert (reflector.lists, reflector.watches) == (1, 1)


def test_the_deletion_of_an_unreadable_object_is_reported(follow):
    bad = {"metadata": {"name": "a", "resourceVersion": "11"}, "status": {"allocatable": {"cpu": "many"}}}
    recorder, _, _, _ = follow(
        lambda r, _: ("delete", "a") in r.reported, lists=[listed(node("a"))], watches=[Stream(events=[event("DELETED", bad)])]
    )
    assert recorder.names("Node") == set()


def test_a_garbage_line_starts_the_watch_again_and_then_the_list(follow):
    garbage = Stream(events=[event("ADDED", node("b", "12")), b'{"type":"ADD\xff\n'], hang=30)
    recorder, served, _, _ = follow(
        nodes_are("fresh"), lists=[listed(), listed(node("fresh"), version="30")], watches=[garbage, Stream(events=[b"garbage\n"], hang=30)]
    )
    assert [query["resourceVersion"] for query in served.watch_queries[:2]] == ["10", "12"]
    assert len(served.list_queries) == 2
    assert len(recorder.reports) == 2


def test_an_event_of_an_unknown_type_changes_nothing_and_is_reported(follow):
    odd = Stream(events=[event("ADDED", node("b", "12")), event("EXPLODED", node("c", "13"))], hang=30)
    recorder, served, _, _ = follow(
        lambda recorder, served: len(served.watch_queries) == 2, watches=[odd, Stream(events=[], hang=30)], lists=[listed(node("a"))]
    )
    assert set(recorder.objects["Node"]) == {"a", "b"}
    assert [query["resourceVersion"] for query in served.watch_queries] == ["10", "12"]
    ((_, error),) = recorder.reports
    assert "unknown type 'EXPLODED'" in str(error)
    assert isinstance(error, WharfingerError), "no fault of the program, so its log line has no traceback"


def test_a_list_that_is_refused_as_expired_is_reported_and_asked_for_again(follow):
    recorder, _, clock, _ = follow(nodes_are("a"), lists=[*[refused(410, "Expired")] * 4, listed(node("a"))])
    assert len(recorder.reports) == 2
    assert clock.waits == [0.2, 0.4]


def test_a_page_that_is_followed_by_itself_ends_the_list(follow):
    recorder, _, _, _ = follow(nodes_are("b"), lists=[*[listed(node("a"), token="again")] * 2, listed(node("b"))], page_size=1)
    ((_, error),) = recorder.reports
    assert "whose continue token does not change" in str(error)


def test_lines_may_be_long(follow):
    long = node("long", "12", annotations={"a": "x" * 300_000})
    recorder, _, _, _ = follow(nodes_are("long"), watches=[Stream(events=[event("ADDED", long)], hang=30)])
    assert len(recorder.objects["Node"]["long"].metadata.annotations["a"]) == 300_000


def test_a_field_that_nobody_reads_may_be_nested_deeper_than_can_be_decoded(follow):
    """The API server takes 10,000 levels, for example in the parameters of a ResourceClaim for its driver."""

    def deep(name, version):
        lists = "[" * 9_000 + "]" * 9_000
        return f'{{"metadata": {{"name": "{name}", "resourceVersion": "{version}"}}, "spec": {{"x": {lists}, "unschedulable": true}}}}'

    page = f'{{"metadata": {{"resourceVersion": "10"}}, "items": [{deep("a", 9)}]}}'
    recorder, served, _, _ = follow(
        nodes_are("a", "b"),
        lists=[Answer(raw=page.encode())],
        watches=[Stream(events=[f'{{"type": "ADDED", "object": {deep("b", 11)}}}\n'.encode()])],
    )
    assert all(node.spec.unschedulable for node in recorder.objects["Node"].values())
    assert (recorder.reports, len(served.list_queries)) == ([], 1)


def test_a_kind_that_we_may_not_read_has_no_objects(follow):
    services = Resource(kind=objects.Service, path=PATH)
    recorder, _, clock, reflector = follow(lambda r, s: len(s.list_queries) == 2, lists=[refused(403, "Forbidden")], resource=services)
    assert recorder.kinds_synced == ["Service"]
    assert reflector.refused == "Forbidden"
    assert clock.waits[0] == 60.0
    assert len(recorder.reports) == 1


def test_nodes_that_we_may_not_read_are_never_in_sync(follow):
    recorder, _, _, reflector = follow(lambda r, s: len(s.list_queries) == 2, lists=[refused(403, "Forbidden")])
    assert recorder.kinds_synced == []
    assert reflector.refused


def test_a_kind_that_may_be_read_later_is_read_then(follow):
    lists = [refused(403, "Forbidden"), listed(node("a"))]
    recorder, _, _, reflector = follow(lambda _, served: served.watch_queries, lists=lists)  # watched once the list has been taken over
    assert recorder.names("Node") == {"a"}
    assert reflector.refused is None


OPTIONAL = Resource(kind=objects.PodGroup, path=PATH, optional=True)


def test_a_kind_that_the_server_need_not_have_is_looked_for_once_a_minute_without_a_report(follow):
    lists = [refused(404, "NotFound")] * 3 + [listed(node("a"))]
    recorder, _, clock, reflector = follow(lambda _, served: served.watch_queries, lists=lists, resource=OPTIONAL)
    assert recorder.names("PodGroup") == {"default/a"}
    assert recorder.kinds_synced == ["PodGroup"]
    assert recorder.reports == []
    assert clock.waits == [60.0] * 3
    assert not reflector.absent


def test_a_kind_that_the_server_need_not_have_has_no_objects_once_it_is_gone(follow):
    lists = [listed(node("a")), refused(404, "NotFound")]
    watches = [Stream(events=[event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})])]
    recorder, _, _, reflector = follow(lambda r, s: len(s.list_queries) > 2, lists=lists, watches=watches, resource=OPTIONAL)
    assert recorder.names("PodGroup") == set()
    assert reflector.absent
    assert reflector.refused is None
    assert recorder.reports == []


def test_a_kind_is_read_at_the_newest_version_that_the_server_has(run):
    resource = Resource(
        kind=objects.PodGroup, path="/apis/x/v3/podgroups", older=("/apis/x/v2/podgroups", "/apis/x/v1/podgroups"), optional=True
    )

    async def scenario(server, connection):
        for path in ("/apis/x/v3/podgroups", "/apis/x/v1/podgroups"):
            server.on("GET", path, refused(404, "NotFound"))
        server.on("GET", "/apis/x/v2/podgroups", listed(node("a")), QUIET)
        recorder, clock = Recorder(), RealClock()
        reflector = Reflector(connection, resource, recorder, clock, recorder.emit, ReflectorSettings(backoff=steady))
        async with running(reflector.run()):
            await until(lambda: len(server.seen) == 3)
        assert [seen.path for seen in server.seen] == ["/apis/x/v3/podgroups", "/apis/x/v2/podgroups", "/apis/x/v2/podgroups"]
        assert reflector.path == "/apis/x/v2/podgroups"
        assert recorder.names("PodGroup") == {"default/a"}
        assert clock.waits == []

    run(scenario)


END = {"k8s.io/initial-events-end": "true"}


def test_a_streamed_list_is_one_replacement_and_the_watch_goes_on_in_it(follow):
    stream = Stream(
        events=[event("ADDED", node("a", "3")), event("ADDED", node("b", "4")), bookmark("9", **END), event("DELETED", node("a", "11"))],
        hang=30,
    )
    recorder, served, _, _ = follow(nodes_are("b"), watches=[stream], streaming=True)
    assert recorder.reported == [("replace", "Node"), ("delete", "a")]
    assert served.watch_queries[0]["sendInitialEvents"] == "true"
    assert served.list_queries == []


@pytest.mark.parametrize("refusal", [refused(422, "Invalid"), Stream(events=[event("ADDED", node("x"))])])
def test_servers_without_streamed_lists_are_asked_in_pages(follow, refusal):
    recorder, served, _, _ = follow(nodes_are("a"), lists=[listed(node("a"))], watches=[refusal], streaming=True)
    assert len(served.list_queries) == 1
    assert recorder.reported == [("replace", "Node")]


def test_after_a_streamed_list_that_broke_off_pages_are_asked_for_once(follow):
    broken = Stream(events=[event("ADDED", node("a", "3"))], cut=True)
    whole = Stream(events=[event("ADDED", node("b", "4")), bookmark("9", **END)], hang=30)
    recorder, served, _, _ = follow(nodes_are("b"), lists=[refused(500, "InternalError")], watches=[broken, whole], streaming=True)
    assert ["sendInitialEvents" in query for query in served.watch_queries] == [True, True]
    assert len(served.list_queries) == 1
    assert recorder.reported == [("replace", "Node")]


def test_streams_that_always_break_off_delay_no_other(follow):
    broken = [Stream(events=[event("ADDED", node("a", "3"))], cut=True)] * 20
    _, served, _, _ = follow(lambda recorder, _: "c" in recorder.names("Node"), lists=[listed(node("c"))], watches=broken, streaming=True)
    assert "sendInitialEvents" in served.watch_queries[0]
    assert len(served.list_queries) == 1


@pytest.mark.parametrize("lost", [None, {"spec": {}}, {"metadata": {"name": 1}}])
def test_a_streamed_list_with_a_line_without_an_object_is_incomplete(follow, lost):
    stream = Stream(events=[event("ADDED", node("a", "3")), event("ADDED", lost), bookmark("9", **END)], hang=30)
    recorder, _, _, _ = follow(nodes_are("a", "b"), lists=[listed(node("a"), node("b"))], watches=[stream], streaming=True)
    assert recorder.reported == [("replace", "Node")]
    assert any("without an object" in str(report) for report in recorder.reports)


def test_a_server_that_forgets_every_version_at_once_is_not_asked_for_one_list_after_the_other(follow):
    _, _, clock, _ = follow(lambda _, served: len(served.list_queries) == 5, watches=[refused(410, "Expired")] * 5)
    assert clock.waits[:4] == [0.2, 0.4, 0.8, 1.6]


def test_a_list_that_breaks_off_says_nothing_of_an_object_that_cannot_be_read(run):
    class UnreadableRecorder(Recorder):
        def unreadable(self, kind, obj, error, *, listed):
            self.reported.append(("unreadable", obj.metadata.name))

    bad = {**node("bad"), "spec": {"taints": 5}}

    async def scenario(server, connection):
        lists = [listed(bad, token="p2"), refused(500), listed(node("a"))]
        Served(server, lists, [])
        recorder, clock = UnreadableRecorder(), RealClock()
        async with running(Reflector(connection, NODES, recorder, clock, recorder.emit, ReflectorSettings(backoff=steady)).run()):
            await until(lambda: recorder.kinds_synced)
        assert recorder.reported == [("replace", "Node")]

    run(scenario)


class ListingRecorder(Recorder):
    """A sink that also stores the parts of the first list."""

    def listing(self, kind, objs):
        self.reported.append(("listing", len(objs)))


NAMES = [f"n{number}" for number in range(250)]
STREAMED = Stream(events=[*(event("ADDED", node(name)) for name in NAMES), bookmark("9", **END)], hang=30)
FORGOTTEN = Stream(events=[*STREAMED.events, event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})], hang=30)
IN_PAGES = [listed(*map(node, NAMES[:150]), token="more"), listed(*map(node, NAMES[150:]))]


@pytest.mark.parametrize(
    ("lists", "watches", "streaming", "parts"),
    [
        ([listed()], [STREAMED], True, [100, 100]),  # the rest comes with the bookmark
        (IN_PAGES, [], False, [100, 50, 100]),
    ],
    ids=["stream", "pages"],
)
def test_the_sink_gets_parts_of_the_first_list_while_it_is_read(run, lists, watches, streaming, parts):
    async def scenario(server, connection):
        Served(server, lists, watches)
        recorder = ListingRecorder()
        settings = ReflectorSettings(backoff=steady, streaming=streaming)
        async with running(Reflector(connection, NODES, recorder, RealClock(), recorder.emit, settings).run()):
            await until(lambda: recorder.kinds_synced)
        assert recorder.reported == [*(("listing", n) for n in parts), ("replace", "Node")]
        assert recorder.names("Node") == set(NAMES)

    run(scenario)


def test_no_parts_of_a_later_list_are_applied(run):
    async def scenario(server, connection):
        Served(server, [listed()], [FORGOTTEN, STREAMED])
        recorder = ListingRecorder()
        settings = ReflectorSettings(backoff=steady, streaming=True)
        async with running(Reflector(connection, NODES, recorder, RealClock(), recorder.emit, settings).run()):
            await until(lambda: recorder.reported.count(("replace", "Node")) == 2)
        assert recorder.reported == [("listing", 100), ("listing", 100), ("replace", "Node"), ("replace", "Node")]

    run(scenario)
