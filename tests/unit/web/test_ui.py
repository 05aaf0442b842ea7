"""The live page without a browser: who may look, what is sent, and to how many."""

import asyncio
import json
import random
from contextlib import asynccontextmanager

import numpy as np
import pytest

from tests.in_memory import ManualClock
from tests.unit.web.asking import FAR, NEAR, asking
from wharfinger.errors import UnknownObject
from wharfinger.web.ui import feed as feeding
from wharfinger.web.ui.channel import Change, Channel, Part
from wharfinger.web.ui.feed import Feed, TooMany
from wharfinger.web.ui.page_content import Coloring, NodeMap, PodQuery, Tiles, steps
from wharfinger.web.ui.pages import MAX_FOUND, MAX_TEXT_BYTES, EventStream, LivePage, routes


class PageContent:
    """A board of a few nodes that a test can change."""

    def __init__(self, values=(0.0, 0.5, 1.0, np.nan)):
        self.layout = 1
        self.values = np.array(values)
        self.names = self.zones = None  # of the nodes, where a test says more than how many there are
        self.flags = np.zeros(len(values), np.uint8)
        self.messages = {"summary": {"now": 1}}
        self.looked = 0

    def node_map(self, coloring, known):
        self.looked += 1
        if coloring == "gone":
            raise UnknownObject("no node offers gone")
        names = self.names or [f"node-{index}" for index in range(len(self.values))]
        zones = self.zones or [-1] * len(names)
        tiles = None if known == self.layout else Tiles(names=names, zones=zones, zone_names=["a", "b", "c"][: 1 + max(zones)])
        return NodeMap(
            layout=self.layout,
            tiles=tiles,
            flags=self.flags,
            coloring=Coloring(title=coloring, unit="fraction", low=0, high=1, values=self.values),
        )

    def precompute(self, coloring):
        return iter(())

    def parts(self):
        for name, value in self.messages.items():
            yield name, value
            yield None

    def pods(self, query):
        yield "pending", {"namespace": query.namespace}

    def find(self, text):
        yield [name for name in ("shop/web", "shop/api", "team/web") if text in name]
        yield [f"many/web-{index}" for index in range(40)] if text == "web" else []

    def node(self, name):
        if name != "node-0":
            raise UnknownObject(f"there is no node {name}")
        return {"name": name}


def events(sent):
    """(event, data) of everything that was sent."""
    blocks = b"".join(sent).decode().strip().split("\n\n")
    lines = [block.split("\n") for block in blocks if block.startswith("event")]
    return [(first.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for first, data in lines]


def client(page_content=None, **more):
    page_content = page_content or PageContent()
    page = LivePage(page_content=page_content, feed=Feed(page_content, ManualClock(), lambda *_: None), public=more.pop("public", False))
    return asking(extra_routes=routes(page), **more)


# ── who may look ──


def test_the_page_is_for_the_machine_itself():
    assert client(client=NEAR).get("/ui", headers={"host": "localhost:10261"}).status_code == 200
    assert client(client=NEAR).get("/ui", headers={"host": "127.0.0.1:10261"}).status_code == 200
    assert client(client=NEAR).get("/ui", headers={"host": "[::1]:10261"}).status_code == 200
    assert client(client=FAR).get("/ui", headers={"host": "127.0.0.1"}).status_code == 403


@pytest.mark.parametrize("path", ["/ui", "/ui/static/app.js", "/ui/events", "/ui/nodes/node-0", "/ui/pods?find=a"])
def test_foreign_host_names_are_refused(path):
    assert client(client=NEAR).get(path, headers={"host": "rebound.example"}).status_code == 403


def test_the_page_can_be_made_public():
    assert client(client=FAR, public=True).get("/ui", headers={"host": "scheduler.example"}).status_code == 200


@pytest.mark.parametrize("path", ["/ui", "/ui/static/app.js", "/ui/static/none.js", "/ui/nodes/node-0"])
def test_every_answer_says_what_the_browser_may_do(path):
    headers = client().get(path, headers={"host": "localhost"}).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"


def test_a_head_request_opens_no_watch():
    page_content = PageContent()
    answer = client(page_content).request("HEAD", "/ui/events", headers={"host": "localhost"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert page_content.looked == 0


def test_nothing_can_be_changed():
    for path in ("/ui", "/ui/events", "/ui/nodes/node-0"):
        assert client().request("POST", path, headers={"host": "localhost"}).status_code == 405


def test_files_are_not_sent_again_and_none_leads_outside():
    asked = client()
    first = asked.get("/ui/static/app.js", headers={"host": "localhost"})
    again = asked.get("/ui/static/app.js", headers={"host": "localhost", "if-none-match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    for path in ("/ui/static/..%2fpages.py", "/ui/static/pages.py", "/ui/static/__init__.py"):
        assert asked.get(path, headers={"host": "localhost"}).status_code == 404


def test_nodes_are_reported_by_name():
    assert client().get("/ui/nodes/node-0", headers={"host": "localhost"}).json() == {"name": "node-0"}
    assert client().get("/ui/nodes/node-9", headers={"host": "localhost"}).status_code == 404


def test_pods_are_found_up_to_a_number():
    assert client().get("/ui/pods?find=shop", headers={"host": "localhost"}).json() == {"pods": ["shop/web", "shop/api"], "more": False}
    many = client().get("/ui/pods?find=web", headers={"host": "localhost"}).json()
    assert (len(many["pods"]), many["more"]) == (MAX_FOUND, True)
    assert client().get("/ui/pods", headers={"host": "localhost"}).status_code == 400


def objects_of(text, content_type="application/yaml"):
    return client().request("POST", "/ui/objects", headers={"host": "localhost", "content-type": content_type}, content=text)


def test_the_objects_of_a_text_are_named_in_json():
    assert objects_of("kind: Pod\n---\nkind: Job\nspec: {completions: 2}\n").json() == {
        "objects": [{"kind": "Pod"}, {"kind": "Job", "spec": {"completions": 2}}]
    }
    assert objects_of('{"kind": "Pod"}').json() == {"objects": [{"kind": "Pod"}]}


@pytest.mark.parametrize(
    ("text", "content_type", "status", "said"),
    [
        ("a: [", "application/yaml", 400, "not YAML"),
        ("a: 1\na: 2\n", "application/yaml", 400, "a"),
        ("[1, 2]: a", "application/yaml", 400, ""),
        ("true: a", "application/yaml", 400, "a key is neither text nor a number; write it in quotes"),
        ("kind: Pod", "text/plain", 415, "application/yaml"),
        ("x" * (MAX_TEXT_BYTES + 1), "application/yaml", 413, "longer than"),
    ],
)
def test_a_text_that_has_no_objects_is_refused(text, content_type, status, said):
    answer = objects_of(text, content_type)
    assert (answer.status_code, said in answer.text) == (status, True)


@pytest.mark.parametrize("question", ["result=none", f"namespace={'x' * 700}", f"policy={'x' * 700}"])
def test_a_choice_that_makes_no_sense_is_refused(question):
    assert client().get(f"/ui/events?{question}", headers={"host": "localhost"}).status_code == 400


# ── what is sent ──


def sent(channel, changes):
    """What a watcher gets that knows everything before these changes."""
    return events(
        [one for change in changes for one in ([change.difference] if change.difference is not None else channel.newest(change.part))]
    )


def test_a_new_watcher_gets_everything_and_then_differences():
    page_content, channel = PageContent(), Channel("cpu")
    first = sent(channel, channel.update(page_content))
    assert [name for name, _ in first] == ["tiles", "values", "flags"]
    assert first[1][1]["values"] == [0, 500, 1000, -1]

    assert channel.update(page_content) == []
    page_content.values[1] = 0.75
    assert sent(channel, channel.update(page_content)) == [("change", {"at": [1], "values": [750]})]
    assert events(channel.newest(Part.MAP))[1][1]["values"] == [0, 750, 1000, -1]


def test_all_watchers_share_the_bytes_of_the_whole():
    page_content, channel = PageContent(), Channel("cpu")
    channel.update(page_content)
    assert all(one is other for one, other in zip(channel.newest(Part.MAP), channel.newest(Part.MAP), strict=True))


def test_tiny_changes_of_values_are_not_sent():
    page_content, channel = PageContent(), Channel("cpu")
    channel.update(page_content)
    page_content.values[1] += 0.0003
    assert channel.update(page_content) == []


def test_many_changes_are_sent_whole():
    page_content, channel = PageContent(), Channel("cpu")
    channel.update(page_content)
    page_content.values[:3] = 0.1
    assert channel.update(page_content) == [Change(Part.VALUES)]
    assert events(channel.newest(Part.VALUES))[0][1]["values"] == [100, 100, 100, -1]


def test_new_nodes_are_new_tiles():
    page_content, channel = PageContent(), Channel("cpu")
    channel.update(page_content)
    page_content.layout, page_content.values, page_content.flags = 2, np.array([0.5]), np.array([1], np.uint8)
    found = dict(sent(channel, channel.update(page_content)))
    assert found["tiles"]["names"] == ["node-0"]
    assert (found["values"]["values"], found["flags"]) == ([500], [1])


class Map:
    """The map as a page has it."""

    def hear(self, name, data):
        if name == "tiles":
            self.names, self.zones, self.zone_names = data["names"], data["zones"], data["zoneNames"]
        elif name in {"values", "flags"}:
            setattr(self, name, data["values"] if name == "values" else data)
        else:
            count = data.get("count", len(self.names))
            for column in ("names", "zones", "values", "flags"):
                known = getattr(self, column)
                known[count:] = []
                known += [None] * (count - len(known))
                for at, new in zip(data["at"], data.get(column, ()), strict=False):
                    known[at] = new


def test_nodes_that_come_and_go_are_sent_as_differences():
    """After each of them, a page that has heard all differences has what a page has that is opened then."""
    chance = random.Random(7)
    page_content, channel = PageContent(), Channel("cpu")
    rows = [(f"node-{number}", number % 3, 0.5, 0) for number in range(40)]
    seen, heard = Map(), []
    for number in range(40, 140):
        for _ in range(chance.randrange(3)):
            rows.append((f"node-{number}-{len(rows)}", chance.randrange(-1, 3), chance.random(), chance.randrange(8)))
        for _ in range(chance.randrange(3)):
            rows[chance.randrange(len(rows))] = rows[-1]  # the last row moves into the place of the one that goes
            rows.pop()
        page_content.layout, page_content.names, page_content.zones = number, [row[0] for row in rows], [row[1] for row in rows]
        page_content.values, page_content.flags = np.array([row[2] for row in rows]), np.array([row[3] for row in rows], np.uint8)
        messages = sent(channel, channel.update(page_content))
        heard += [name for name, _ in messages]
        fresh = Map()
        for page, news in ((seen, messages), (fresh, events(channel.newest(Part.MAP)))):
            for message in news:
                page.hear(*message)
        assert vars(seen) == vars(fresh)
    assert heard.count("nodes") > 60


def test_a_difference_of_nodes_is_small():
    page_content, channel = PageContent(np.zeros(20_000)), Channel("cpu")
    channel.update(page_content)
    page_content.layout, page_content.values, page_content.flags = 2, np.zeros(20_001), np.zeros(20_001, np.uint8)
    (change,) = channel.update(page_content)
    assert len(change.difference) < 200


def test_an_unknown_coloring_is_reported_once_and_may_come_back():
    page_content, channel = PageContent(), Channel("gone")
    assert sent(channel, channel.update(page_content)) == [("trouble", {"coloring": "gone", "sentence": "no node offers gone"})]
    assert channel.update(page_content) == []
    channel.key = "cpu"
    assert [name for name, _ in sent(channel, channel.update(page_content))] == ["tiles", "values", "flags"]


def test_values_beyond_the_scale_keep_their_distance():
    coloring = Coloring(title="", unit="fraction", low=0, high=1, values=np.array([1.7, -0.1, np.inf]))
    assert steps(coloring).tolist() == [1700, 0, -1]


# ── to how many ──


@asynccontextmanager
async def feeding_from(page_content, clock=None):
    failures = []
    feed = Feed(page_content, clock or ManualClock(), lambda event: failures.append((event.where, str(event.error))))
    feed.failures = failures
    yield feed
    feed.close()


async def run_pending():
    for _ in range(20):
        await asyncio.sleep(0)


def test_nothing_is_read_while_no_page_is_open():
    async def look():
        page_content, clock = PageContent(), ManualClock()
        async with feeding_from(page_content, clock) as feed:
            watcher = feed.join("cpu")
            await run_pending()
            feed.leave(watcher)
            looked = page_content.looked
            clock.move(100)
            await run_pending()
            assert page_content.looked == looked

    asyncio.run(look())


def test_a_colouring_is_precomputed_in_steps():
    class Unread(PageContent):
        read = 0

        def precompute(self, coloring):
            while coloring == "devices" and self.read < 30:
                self.read += 1
                yield

        def node_map(self, coloring, known):
            assert self.read == 30
            return super().node_map(coloring, known)

    async def look():
        page_content = Unread()
        async with feeding_from(page_content, ManualClock()) as feed:
            watcher = feed.join("devices")
            assert (page_content.read, page_content.looked) == (1, 0)
            for number in range(2, 10):
                await asyncio.sleep(0)
                assert page_content.read <= number
            await run_pending()
            await run_pending()
            assert {name for name, _ in events([await watcher.next()])} >= {"tiles", "values", "flags"}

    asyncio.run(look())


def test_pages_with_the_same_view_share_one_look_at_the_cluster():
    async def look():
        page_content, clock = PageContent(), ManualClock()
        async with feeding_from(page_content, clock) as feed:
            watchers = [feed.join("cpu") for _ in range(5)]
            await run_pending()
            for watcher in watchers:
                await read_all(watcher)
            looked = page_content.looked
            page_content.values[0] = 0.9
            clock.move(1)
            await run_pending()
            assert page_content.looked == looked + 1
            found = [events([await watcher.next()]) for watcher in watchers]
            assert found[0] == found[4]
            assert ("change", {"at": [0], "values": [900]}) in found[0]

    asyncio.run(look())


def test_parts_are_sent_when_they_change():
    async def look():
        page_content, clock = PageContent(), ManualClock()
        async with feeding_from(page_content, clock) as feed:
            watcher = feed.join("cpu")
            await run_pending()
            assert ("summary", {"now": 1}) in events([await watcher.next()])
            page_content.messages = {"summary": {"now": 1}, "pending": {"total": 3}}
            clock.move(1)
            await run_pending()
            assert events([await watcher.next()]) == [("pending", {"total": 3})]
            late = feed.join("cpu")
            assert {name for name, _ in events([await late.next()])} == {"summary", "pending", "tiles", "values", "flags"}

    asyncio.run(look())


def test_each_page_gets_events_of_the_pods_that_it_shows():
    async def look():
        page_content, clock = PageContent(), ManualClock()
        async with feeding_from(page_content, clock) as feed:
            everything, shop, late = feed.join("cpu"), feed.join("cpu", PodQuery(namespace="shop")), None
            await run_pending()
            for watcher, namespace in ((everything, ""), (shop, "shop")):
                assert [value for name, value in events([await watcher.next()]) if name == "pending"] == [{"namespace": namespace}]
            late = feed.join("cpu", PodQuery(namespace="shop"))
            assert ("pending", {"namespace": "shop"}) in events([await late.next()])
            feed.leave(shop)
            feed.leave(late)
            assert {query for query, _ in feed._parts} == {None, PodQuery()}

    asyncio.run(look())


def test_pages_of_a_huge_cluster_get_signs_of_life_between_two_updates():
    class Slow(PageContent):
        def parts(self):
            clock.move(0.3)  # of a time share of 2 %, so the next update is 15 s later
            return super().parts()

    clock = ManualClock()

    async def look():
        page_content = Slow()
        async with feeding_from(page_content, clock) as feed:
            watcher = feed.join("cpu")
            await run_pending()
            await watcher.next()
            looked = page_content.looked
            for _ in range(3):
                clock.move(feeding.ALIVE_INTERVAL)
                await run_pending()
                assert events([await watcher.next()]) == [("alive", {})]
            assert page_content.looked == looked

    asyncio.run(look())


def test_a_board_that_raises_is_read_again():
    async def look():
        page_content, clock = PageContent(), ManualClock()
        async with feeding_from(page_content, clock) as feed:
            feed.join("cpu")
            page_content.values = None
            await run_pending()
            assert feed.failures[0][0] == "live page"
            page_content.values = np.array([0.5])
            clock.move(1)
            await run_pending()
            assert len(feed.failures) == 1

    asyncio.run(look())


def test_the_number_of_open_pages_is_limited():
    async def look():
        async with feeding_from(PageContent()) as feed:
            for _ in range(feeding.MAX_WATCHERS):
                feed.join("cpu")
            with pytest.raises(TooMany, match="64 pages are already open"):
                feed.join("cpu")
        async with feeding_from(PageContent()) as feed:
            for number in range(feeding.MAX_QUERIES):
                feed.join("cpu", PodQuery(namespace=str(number)))
            with pytest.raises(TooMany, match="32 different filters"):
                feed.join("cpu", PodQuery(namespace="more"))
        async with feeding_from(PageContent()) as feed:
            for number in range(feeding.MAX_CHANNELS):
                feed.join(f"pod:default/{number}")
            with pytest.raises(TooMany, match="6 different colourings"):
                feed.join("pod:default/more")

    asyncio.run(look())


async def read_all(watcher):
    """What a page gets that reads everything now."""
    found = []
    while watcher.under_way or watcher._waiting:
        found.append(await watcher.next())
    return events(found)


def test_a_page_that_reads_slowly_skips_states(monkeypatch):
    """It gets the newest state of each part once, and its differences fit to what it was sent."""

    async def look():
        page_content, clock = PageContent(np.zeros(2000)), ManualClock()
        async with feeding_from(page_content, clock) as feed:
            watcher = feed.join("cpu")
            await run_pending()
            monkeypatch.setattr(feeding, "PIECE_BYTES", 1000)
            begun = await watcher.next()
            for second in range(1, 40):
                page_content.values[second] = 0.5
                page_content.messages = {"summary": {"now": second, "more": "x" * 200}}
                clock.move(1)
                await run_pending()
            assert len(begun) == 1000
            first, later = [begun], []
            while watcher.under_way:
                first.append(await watcher.next())
            while watcher._waiting or watcher.under_way:
                later.append(await watcher.next())
            assert [name for name, _ in events(first)] == ["tiles", "values", "flags", "summary", "pending"]
            found = dict(events(later))
            assert len(events(later)) == len(found)
            assert found["summary"]["now"] == 39
            assert found["values"]["values"][:41] == [0, *[500] * 39, 0]

    asyncio.run(look())


def test_new_nodes_replace_what_waits_about_the_former_ones():
    async def look():
        page_content, clock = PageContent(), ManualClock()
        async with feeding_from(page_content, clock) as feed:
            watcher = feed.join("cpu")
            await run_pending()
            await read_all(watcher)
            for change in (lambda: page_content.values.__setitem__(0, 0.3), lambda: page_content.flags.__setitem__(0, 1)):
                change()
                clock.move(1)
                await run_pending()
            page_content.layout, page_content.values, page_content.flags = 2, np.array([0.5]), np.array([0], np.uint8)
            clock.move(1)
            await run_pending()
            page_content.values[0] = 0.75
            clock.move(1)
            await run_pending()
            found = await read_all(watcher)
            assert [name for name, _ in found] == ["tiles", "values", "flags"]
            assert (found[0][1]["names"], found[1][1]["values"], found[2][1]) == (["node-0"], [750], [0])

    asyncio.run(look())


@pytest.mark.parametrize("before", [False, True], ids=["nodes come", "a value changes and nodes come"])
@pytest.mark.parametrize("after", [None, "values", "layout"], ids=["alone", "before a value changes", "twice"])
def test_a_page_that_knows_the_nodes_is_sent_the_new_ones_alone(before, after):
    """Only if that is the one news: a difference is no use to a page that has not read what was before it."""

    async def look():
        page_content, clock = PageContent(np.zeros(20)), ManualClock()
        async with feeding_from(page_content, clock) as feed:
            watcher = feed.join("cpu")
            await run_pending()
            await read_all(watcher)
            if before:
                page_content.values[0] = 0.3
                clock.move(1)
                await run_pending()
            page_content.layout, page_content.values, page_content.flags = 2, np.zeros(21), np.zeros(21, np.uint8)
            clock.move(1)
            await run_pending()
            if after:
                page_content.values[3] = 0.9
                page_content.layout = 3 if after == "layout" else 2
                clock.move(1)
                await run_pending()
            assert [name for name, _ in await read_all(watcher)] == (["tiles", "values", "flags"] if before or after else ["nodes"])

    asyncio.run(look())


@pytest.mark.parametrize("size", [100, 300_000])
def test_a_cluster_of_any_size_is_sent_in_pieces(size):
    async def look():
        page_content = PageContent(np.zeros(size))
        async with feeding_from(page_content) as feed:
            watcher, found = feed.join("cpu"), []
            await run_pending()
            while watcher.under_way or watcher._waiting:
                found.append(await watcher.next())
                await run_pending()
            assert max(map(len, found)) <= feeding.PIECE_BYTES
            assert len(dict(events(found))["tiles"]["names"]) == size
            assert len(feed) == 1

    asyncio.run(look())


class Connection:
    """A connection that takes no byte after the headers and the first lines, until the server closes it."""

    def __init__(self):
        self.closed, self.sent = asyncio.Event(), []

    async def send(self, message):
        self.sent.append(message)
        if len(self.sent) > 2:
            await self.closed.wait()

    async def receive(self):
        await self.closed.wait()
        return {"type": "http.disconnect"}


def test_pages_that_read_nothing_hold_no_former_states_beyond_a_limit(monkeypatch):
    """The slowest ones are disconnected, and what was sent to them is freed at once."""
    monkeypatch.setattr(feeding, "PIECE_BYTES", 100)
    monkeypatch.setattr(feeding, "MAX_SENDING_BYTES", 12_000)

    async def look():
        page_content, clock = PageContent(np.zeros(200)), ManualClock()
        async with feeding_from(page_content, clock) as feed:
            connections, watchers, answering = [], [], []
            for number in range(10):
                page_content.layout = 2 + number
                clock.move(1)
                await run_pending()
                connections.append(Connection())
                watchers.append(feed.join("cpu"))
                answering.append(
                    asyncio.ensure_future(EventStream(feed, watchers[-1], {})({}, connections[-1].receive, connections[-1].send))
                )
                await run_pending()
            clock.move(1)
            await run_pending()
            held = {id(one): len(one) for watcher in watchers for one in watcher.under_way}
            assert sum(held.values()) <= 12_000
            gone = [watcher.gone for watcher in watchers]
            assert gone == sorted(gone, reverse=True)
            assert 1 < sum(gone) < 10
            for connection in connections:
                connection.closed.set()
            await run_pending()
            assert all(one.done() for one in answering)
            assert len(feed) == 0

    asyncio.run(look())


def test_pages_that_read_nothing_of_a_cluster_at_rest_share_its_bytes(monkeypatch):
    monkeypatch.setattr(feeding, "PIECE_BYTES", 100)
    monkeypatch.setattr(feeding, "MAX_SENDING_BYTES", 12_000)

    async def look():
        page_content, clock = PageContent(np.zeros(200)), ManualClock()
        async with feeding_from(page_content, clock) as feed:
            watchers = [feed.join("cpu") for _ in range(feeding.MAX_WATCHERS)]
            await run_pending()
            for watcher in watchers:
                await watcher.next()
            for second in range(20):
                page_content.values[second] = 0.5
                clock.move(1)
                await run_pending()
            assert len(feed) == feeding.MAX_WATCHERS

    asyncio.run(look())


def test_the_stream_ends_with_its_connection_and_with_the_feed():
    async def look():
        async with feeding_from(PageContent()) as feed:
            left = asyncio.Event()

            async def receive():
                await left.wait()
                return {"type": "http.disconnect"}

            sent = []

            async def send(message):
                sent.append(message)

            first = asyncio.ensure_future(EventStream(feed, feed.join("cpu"), {"X-Test": "1"})({}, receive, send))
            await run_pending()
            assert {(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-test", b"1")} <= set(sent[0]["headers"])
            assert b"event: values" in sent[2]["body"]
            left.set()
            await run_pending()
            assert first.done()
            assert len(feed) == 0

            left.clear()
            second = asyncio.ensure_future(EventStream(feed, feed.join("cpu"), {})({}, receive, send))
            await run_pending()
            feed.close()
            await run_pending()
            assert second.done()
            with pytest.raises(TooMany):
                feed.join("cpu")

    asyncio.run(look())
