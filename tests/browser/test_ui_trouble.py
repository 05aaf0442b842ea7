"""The live page when something goes wrong: bad addresses, refusals, a scheduler that does not answer, names that nobody expects."""

import pytest

from tests.browser.page import NODE, POD, SchedulerPage, nodes, pod
from tests.browser.steps import WORKLOAD, fits_without_findings, held, tab_to, wait_text
from tests.cluster.waiting import eventually
from wharfinger.framework.policy_status import MetricStatus


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("pod=../metrics", ("#detail .verdict", '"../metrics" is not a name of an object')),
        ("pod=nonsense", ("#detail .verdict", "expected its namespace and its name")),
        ("pod=a/b/c", ("#detail .verdict", "expected its namespace and its name")),
        ("pod=shop/gone", ("#detail .verdict", "there is no pod shop/gone")),
        ("group=x", ("#detail .verdict", "expected its namespace and its name")),
        ("node=..", ("#detail .verdict", '".." is not a name of an object')),
        ("node=gone", ("#detail .verdict", "there is no node gone")),
        ("node=node-00001&for=..", ("#detail", '".." is not a name of an object')),
        ("drain=,,", ("#drained", "none")),
        ("add=:3,node-00001:x", ("#added", "1 like node-00001")),
        ("result=bogus", ("#trouble", "expected one of scheduled")),
    ],
)
def test_an_address_that_nobody_wrote_gets_the_reason(scheduler, visit, query, said):
    found = visit(scheduler.url)
    found.tab.goto(f"{scheduler.url}?{query}")
    wait_text(found.tab, *said)
    assert found.tab.evaluate("[...document.querySelectorAll('.chips button')].every((chip) => chip.innerText.length > 5)")
    found.expected = "Failed to load resource"


def test_an_unknown_colouring_is_named_and_another_can_be_chosen(scheduler, visit):
    tab = visit(scheduler.url).tab
    tab.goto(f"{scheduler.url}?coloring=bogus")
    wait_text(tab, "#trouble", "no node offers bogus")
    tab.wait_for_function("() => document.getElementById('coloring').selectedOptions[0]?.text === 'bogus'")
    tab.wait_for_function("() => document.getElementById('coloring').options.length > 2")
    tab.select_option("#coloring", "memory")
    wait_text(tab, "#legend", "100%")
    assert not tab.is_visible("#trouble")


REFUSALS = [
    ({"status": 503, "body": "another evaluation runs", "headers": {"Retry-After": "2"}}, "another evaluation runs. Try again in 2 s."),
    ({"status": 429, "body": "too many requests"}, "too many requests. Try again in a moment."),
    ({"status": 502, "body": "<html>nginx", "content_type": "text/html"}, "502"),
    ({"status": 401, "body": "<html>", "content_type": "text/html"}, "You are not signed in (401). Reload the page."),
    ({"status": 200, "body": "<html>sign in", "content_type": "text/html"}, "not an answer of the scheduler"),
]


@pytest.mark.parametrize(("answer", "said"), REFUSALS)
def test_a_refusal_is_shown_with_what_to_do(scheduler, visit, answer, said):
    found = visit(scheduler.url)
    found.tab.route("**/evaluate", lambda route: route.fulfill(**{"content_type": "text/plain", **answer}))
    found.tab.fill("#workload", WORKLOAD.replace("CPU", "1"))
    found.tab.click("#whatif-try")
    wait_text(found.tab, "#whatif .headline", said)
    assert "<html>" not in found.tab.inner_text("#whatif")
    found.expected = "Failed to load resource"


def test_a_scheduler_that_is_away_is_named_as_the_reason(scheduler, visit):
    found = visit(scheduler.url)
    found.tab.route("**/evaluate", lambda route: route.abort())
    found.tab.route("**/explain/**", lambda route: route.abort())
    found.tab.fill("#workload", WORKLOAD.replace("CPU", "1"))
    found.tab.click("#whatif-try")
    wait_text(found.tab, "#whatif .headline", "The scheduler cannot be reached")
    found.tab.goto(f"{scheduler.url}?pod=shop/web")
    wait_text(found.tab, "#detail .headline", "The scheduler cannot be reached")
    found.expected = "Failed to load resource"


def held_back(tab, pattern, most=1000):
    """The first requests to a pattern: none is answered, and the second list has those that the page has given up."""
    asked, ended = [], []
    tab.route(pattern, lambda route: asked.append(route) if len(asked) < most else route.continue_())
    tab.on("requestfailed", lambda request: ended.append(request.url))
    return asked, ended


def test_a_question_can_be_cancelled_and_another_replaces_it(scheduler, visit):
    tab = visit(scheduler.url).tab
    asked, ended = held_back(tab, "**/evaluate", most=2)
    tab.fill("#workload", WORKLOAD.replace("CPU", "1"))
    assert not tab.is_visible("#whatif-cancel")
    tab.click("#whatif-try")
    tab.wait_for_selector("#whatif-cancel")
    eventually(lambda: tab.evaluate("1") and len(asked) == 1)
    tab.focus("#whatif-cancel")
    tab.keyboard.press("Enter")
    assert tab.inner_text("#whatif-answer") == ""
    assert tab.evaluate("document.activeElement.id") == "whatif-try"
    eventually(lambda: tab.evaluate("1") and len(ended) == 1)
    tab.click("#whatif-try")
    eventually(lambda: tab.evaluate("1") and len(asked) == 2)
    tab.click("#whatif-try")
    wait_text(tab, "#whatif .headline", "All 3 pods would be scheduled")
    eventually(lambda: tab.evaluate("1") and len(ended) == 2)
    assert not tab.is_visible("#whatif-cancel")


def test_a_dialog_that_is_closed_ends_its_question(scheduler, visit):
    tab = visit(scheduler.url).tab
    asked, ended = held_back(tab, "**/explain/**")
    tab.goto(f"{scheduler.url}?pod=shop/web")
    eventually(lambda: tab.evaluate("1") and asked)
    tab.keyboard.press("Escape")
    eventually(lambda: tab.evaluate("1") and ended)


def test_what_is_shown_of_one_object_is_never_under_the_name_of_another(scheduler, visit):
    scheduler.put([pod("web")], POD)
    tab = visit(f"{scheduler.url}?pod=shop/web").tab
    wait_text(tab, "#detail .headline", "Bound to node-")
    held_back(tab, "**/ui/nodes/**")
    tab.locator("#detail .scores button").first.click()
    tab.wait_for_function("() => document.getElementById('detail-title').innerText.startsWith('node-')")
    assert tab.inner_text("#detail-body") == ""
    assert tab.inner_text("#detail-time") == "loading …"


def test_a_key_on_an_answer_is_not_lost_when_the_same_is_asked_again(scheduler, visit):
    """Opened again, the dialog shows no former answer; asked again, it keeps the answer and the keyboard on it."""
    scheduler.put([pod("web")], POD)
    tab = visit(f"{scheduler.url}?pod=shop/web").tab
    wait_text(tab, "#detail .headline", "Bound to node-")
    tab.keyboard.press("Escape")
    wait_text(tab, "#decisions", "shop/web")
    waiting = []
    tab.route("**/explain/**", lambda route: waiting.append(route))  # noqa: PLW0108 — Playwright looks into the function
    tab.get_by_role("button", name="shop/web").first.click()
    eventually(lambda: tab.evaluate("1") and waiting)
    assert tab.inner_text("#detail-body") == ""
    waiting.pop().continue_()
    wait_text(tab, "#detail .headline", "Bound to node-")

    tab.click("#detail-again")
    eventually(lambda: tab.evaluate("1") and waiting)
    tab_to(tab, "Colour the map by its scores")
    waiting.pop().continue_()
    wait_text(tab, "#detail-time", "as of")
    assert held(tab) == "Colour the map by its scores"
    tab.keyboard.press("Enter")
    wait_text(tab, "#legend", "not feasible")


def test_a_text_that_is_far_too_long_is_not_pasted(scheduler, visit):
    tab = visit(scheduler.url).tab
    tab.fill("#workload", "kind: Pod")
    paste = """(length) => { const clipboardData = new DataTransfer(); clipboardData.setData("text/plain", "x".repeat(length));
      const event = new ClipboardEvent("paste", { clipboardData, cancelable: true, bubbles: true });
      return document.getElementById("workload").dispatchEvent(event); }"""
    assert tab.evaluate(paste, 1000)
    assert not tab.evaluate(paste, 3_000_000)
    wait_text(tab, "#whatif .headline", "The text has 3,000,000 characters; the limit is 262,144")
    assert tab.input_value("#workload") == "kind: Pod"


@pytest.mark.parametrize("text", ["hello", "[1, 2]"])
def test_a_text_that_is_no_object_is_named(scheduler, visit, text):
    tab = visit(scheduler.url).tab
    tab.fill("#workload", text)
    tab.click("#whatif-try")
    wait_text(tab, "#whatif .headline", "Document 1 is not an object of Kubernetes")


def test_an_address_never_becomes_longer_than_servers_take(scheduler, visit):
    tab = visit(scheduler.url).tab
    tab.fill("#workload", "# " + "漢" * 3000)
    wait_text(tab, "#whatif-kept", "a reload loses it")
    tab.fill("#find", "node-00007")
    tab.wait_for_function("() => location.search === '?find=node-00007'")
    tab.fill("#workload", "# " + "漢" * 300)
    tab.wait_for_function("() => location.search.length > 2000")
    assert tab.inner_text("#whatif-kept") == ""
    assert tab.reload().status == 200
    assert tab.input_value("#workload") == "# " + "漢" * 300


def test_the_address_changes_once_after_typing(scheduler, visit):
    tab = visit(scheduler.url).tab
    tab.evaluate("""() => { const put = history.replaceState;
      window.changes = 0;
      history.replaceState = (...all) => { window.changes += 1; put.apply(history, all); }; }""")
    tab.focus("#find")
    tab.keyboard.type("node-00007")
    tab.wait_for_function("() => location.search === '?find=node-00007'")
    assert tab.evaluate("window.changes") <= 3  # and not 10; a pause in between is one more


def test_a_process_on_standby_says_who_leads(scheduler, visit):
    tab = visit(scheduler.url).tab
    wait_text(tab, "#role", "leader")
    assert not tab.is_visible("#notice")
    scheduler.ask(lambda page: (setattr(page.standing, "leads", False), setattr(page.standing, "leader", "other-machine_42")))
    wait_text(
        tab,
        "#notice",
        "This process (this-machine_4711) is on standby and schedules nothing: the leader is other-machine_42.",
    )
    scheduler.ask(lambda page: setattr(page.standing, "leads", True))
    tab.wait_for_function("() => !document.getElementById('notice').checkVisibility()")


def test_a_scheduler_of_another_version_asks_for_a_reload(scheduler, visit, monkeypatch):
    tab = visit(scheduler.url).tab
    wait_text(tab, "#role", "leader")
    monkeypatch.setattr("wharfinger.__version__", "99.0")
    wait_text(tab, "#notice", "The scheduler is now version 99.0")
    tab.reload()
    wait_text(tab, "#version", "99.0")
    assert not tab.is_visible("#notice")


def test_news_that_stop_are_named_and_go_on_by_themselves(scheduler, visit):
    found = visit(scheduler.url)
    wait_text(found.tab, "#live", "live")
    scheduler.ask(lambda page: [page.page.feed.leave(watcher) for watcher in list(page.page.feed._watchers)])
    wait_text(found.tab, "#notice", "the page shows the state of that time")
    wait_text(found.tab, "#live", "live")
    assert not found.tab.is_visible("#notice")
    found.expected = "Failed to load resource"  # the connection that was cut


def test_what_was_well_is_not_shown_as_well_while_no_news_come(scheduler, visit):
    found = visit(scheduler.url)
    wait_text(found.tab, "#role", "leader")
    found.tab.evaluate(
        """() => { const colours = () => ["#role", "#health li"].map((each) => getComputedStyle(document.querySelector(each)).color);
          window.seen = [colours()];
          const looking = new MutationObserver(() => window.seen.push(colours()));
          looking.observe(document.documentElement, { attributeFilter: ["data-silent"] }); }"""
    )
    scheduler.ask(lambda page: [page.page.feed.leave(watcher) for watcher in list(page.page.feed._watchers)])
    found.tab.wait_for_function("() => window.seen.length === 3")
    well, silent, again = found.tab.evaluate("window.seen")
    assert well == again
    assert not set(well) & set(silent)
    found.expected = "Failed to load resource"  # the connection that was cut


def test_a_connection_on_which_nothing_comes_is_made_again(scheduler, visit):
    """A forwarded port whose pod has gone, or a laptop that slept: the browser is told nothing."""
    tab = visit(scheduler.url).tab
    tab.clock.install()
    tab.reload()
    wait_text(tab, "#live", "live")

    def swallow(page):
        for watcher in page.page.feed._watchers:
            watcher.put = lambda messages: None

    scheduler.ask(swallow)
    scheduler.put(nodes(61)[60:], NODE)
    tab.clock.fast_forward(15_000)
    wait_text(tab, "#live", "no data since")
    tab.clock.fast_forward(15_000)
    wait_text(tab, "#cluster-title", "61 nodes")
    wait_text(tab, "#live", "live")


def test_the_page_of_a_proxy_is_not_shown_as_the_reason(scheduler, visit):
    found = visit(scheduler.url)
    found.expected = "Failed to load resource"
    found.tab.route("**/ui/events*", lambda route: route.fulfill(status=502, content_type="text/html", body="<html>nginx"))
    found.tab.reload()
    wait_text(found.tab, "#trouble", "502 Bad Gateway")
    assert "nginx" not in found.tab.inner_text("#trouble")
    found.tab.unroute("**/ui/events*")
    found.tab.route("**/ui/events*", lambda route: route.abort())
    wait_text(found.tab, "#trouble", "The scheduler cannot be reached. The page tries again.")
    found.tab.unroute("**/ui/events*")
    wait_text(found.tab, "#live", "live")
    assert not found.tab.is_visible("#trouble")


def test_a_scheduler_that_begins_again_shows_nothing_of_what_was_before(scheduler, visit):
    scheduler.put([pod("huge", cpu="900")], POD)
    tab = visit(scheduler.url).tab
    wait_text(tab, "#pending", "Insufficient cpu")
    daemon = scheduler.ask(lambda page: (page.standing, setattr(page.page.page_content._health, "daemon", None))[0])
    wait_text(tab, "#role", "waiting for the API server")
    wait_text(tab, "#trouble", "the API server has not answered yet")
    wait_text(tab, "#pending", "The API server has not answered yet.")
    shown = {part: tab.inner_text(f"#{part}") for part in ("cluster-title", "counts", "resources", "legend", "pending-title")}
    assert shown == {"cluster-title": "Cluster", "counts": "", "resources": "", "legend": "", "pending-title": "Pending pods"}
    scheduler.put([pod("huger", cpu="900")], POD)
    scheduler.ask(lambda page: setattr(page.page.page_content._health, "daemon", daemon))
    wait_text(tab, "#cluster-title", "60 nodes")
    wait_text(tab, "#pending-title", "· 2")
    wait_text(tab, "#pending", "Insufficient cpu")
    wait_text(tab, "#resources", "cpu")


def test_a_colouring_that_is_no_longer_offered_leaves_no_colours(scheduler, visit):
    scheduler.put([pod("huge", cpu="1")], POD)
    tab = visit(f"{scheduler.url}?coloring=pod:shop/huge").tab
    wait_text(tab, "#legend", "not feasible")
    scheduler.remove("Pod", "shop/huge")
    wait_text(tab, "#trouble", "shop/huge")
    assert tab.inner_text("#legend") == ""
    tab.focus("#map")
    tab.keyboard.press("End")
    assert "points" not in tab.inner_text("#under")


MEASURED = """policy "load"
metric busy: percent = prometheus("busy", node: "instance", max_age: 60s, min_coverage: 10%)
filter calm { require busy < 90% else "busy" on missing pass }
"""


@pytest.mark.parametrize("width", [1360, 390])
def test_many_metrics_leave_room_for_the_page(scheduler, policies, visit, width):
    tab = visit(scheduler.url, viewport={"width": width, "height": 844}).tab
    policies("load", MEASURED)
    common = {"policy": "load", "asked": True, "fresh": 60, "nodes": 60, "wanted": 0.5, "youngest": 1, "oldest": 2}
    metrics = [MetricStatus(name=f"busy{n}", **common, suspended_since=1.0 if n < 12 else None) for n in range(200)]
    scheduler.ask(lambda page: setattr(page.standing.signals, "metrics", metrics))
    wait_text(tab, "#health .bad", "load/busy0")
    wait_text(tab, "#health .good:last-child", "188 metrics")
    wait_text(tab, "#health", "6 more metrics: the policies below say why")
    assert tab.locator("#health li").count() == 9
    assert tab.locator("header").bounding_box()["height"] < 700
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


LONG = "x" * 240
CUT_OFF = """() => [...document.querySelectorAll("main *")].filter((box) => box.checkVisibility() && !box.closest("svg, .unseen, pre"))
  .filter((box) => box.getBoundingClientRect().right > innerWidth).map((box) => box.outerHTML.slice(0, 60))"""
TURNED = "\u202egnp.exe"  # what follows is written from right to left


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (390, "dark")])
def test_names_of_any_length_and_direction_fit(scheduler, policies, visit, width, scheme):
    policies("turned", f'policy "turned-{LONG[:200]}"\nfilter a {{ require node.free.cpu > 1000cpu else "no room {TURNED}{LONG}" }}\n')
    node = nodes(1)[0]
    node["metadata"]["name"] = f"{LONG}.example"
    node["metadata"]["labels"] |= {f"{LONG}/{TURNED}": f"{TURNED}{LONG}", "topology.kubernetes.io/zone": f"{TURNED}{LONG}"}
    node["spec"]["taints"] = [{"key": LONG, "value": TURNED, "effect": "NoSchedule"}]
    scheduler.put([node], NODE)
    waiting = pod(LONG, cpu="900")
    waiting["metadata"]["namespace"] = "n" * 63
    scheduler.put([waiting], POD)
    view = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme}
    found = visit(f"{scheduler.url}?drain={LONG}.example&add={LONG}.example:2&find=xxx&namespace={'n' * 63}", **view)
    wait_text(found.tab, "#pending-title", "· 1")
    found.tab.locator("#pending summary").first.click()
    found.tab.click("#whatif-try")
    wait_text(found.tab, "#whatif .verdict", "")
    fits_without_findings(found.tab, width)
    wide = """() => [...document.querySelectorAll("section, header, form, figure")]
      .filter((box) => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1).map((box) => box.id)"""
    assert found.tab.evaluate(wide) == []
    assert found.tab.evaluate(CUT_OFF) == []
    for query in (f"node={LONG}.example&for={'n' * 63}/{LONG}", f"pod={'n' * 63}/{LONG}"):
        shown = visit(f"{scheduler.url}?{query}", **view)
        wait_text(shown.tab, "#detail .verdict", "")
        fits_without_findings(shown.tab, width)


def test_a_name_in_another_direction_turns_nothing_beside_it(scheduler, visit):
    tab = visit(scheduler.url).tab
    alone = """[...document.querySelectorAll("span, strong, button, h2")]
      .filter((box) => !getComputedStyle(box).unicodeBidi.startsWith("isolate")).length"""
    assert tab.evaluate(alone) == 0


def test_characters_that_turn_text_around_are_written_out(scheduler, visit):
    node = nodes(1)[0]
    node["metadata"]["labels"] |= {"owner": TURNED, "topology.kubernetes.io/zone": TURNED}
    scheduler.put([node], NODE)
    tab = visit(f"{scheduler.url}?node=node-00000").tab
    wait_text(tab, "#detail", "[U+202E]gnp.exe")
    tab.keyboard.press("Escape")
    tab.fill("#find", "node-00000")
    wait_text(tab, "#under", "[U+202E]gnp.exe")


def test_a_cluster_with_very_long_names_opens(visit):
    """Its names are more bytes than may wait for a page later."""
    with SchedulerPage() as page:
        made = nodes(20_000)
        for number, node in enumerate(made):
            node["metadata"]["name"] = f"{number:05d}-{LONG}"
        page.put(made, NODE)
        found = visit(page.url)
        wait_text(found.tab, "#cluster-title", "20,000 nodes")
        page.put([pod("web")], POD)
        wait_text(found.tab, "#decisions", "shop/web")
        assert found.tab.inner_text("#live") == "live"


def test_a_map_that_is_too_large_for_a_canvas_is_drawn_coarser(visit):
    with SchedulerPage() as page:
        made = nodes(1500)
        for number, node in enumerate(made):
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = f"a-zone-of-one-node-{number:05d}"
        page.put(made, NODE)
        tab = visit(page.url, viewport={"width": 390, "height": 844}, device_scale_factor=3).tab
        wait_text(tab, "#cluster-title", "1,500 nodes")
        drawn = """() => { const map = document.getElementById("map"), size = [map.width, map.height];
          return [...size, [...map.getContext("2d").getImageData(0, 0, 300, 300).data].some((value) => value > 0)]; }"""
        width, height, is_drawn = tab.evaluate(drawn)
        assert is_drawn
        assert max(width, height) < 2**15
        assert width * height <= 2**24


@pytest.mark.parametrize(("width", "least"), [(1360, 100), (768, 100), (390, 70)])
def test_the_names_of_a_what_if_answer_are_not_squeezed(scheduler, visit, width, least):
    scheduler.put([pod(f"web-without-controller-{number}", node="node-00000") for number in range(3)], POD)
    tab = visit(f"{scheduler.url}?drain=node-00000", viewport={"width": width, "height": 844}).tab
    tab.click("#whatif-try")
    wait_text(tab, "#whatif .headline", "3 pods cannot be evicted")
    widths = tab.locator("#whatif td.name, #whatif td.from").evaluate_all("all => all.map((cell) => cell.clientWidth)")
    assert len(widths) == 6
    assert min(widths) >= least


@pytest.mark.parametrize(
    "query", ["?coloring=", "?coloring=&find=&namespace=&result=&policy=&drain=&add=&pod=&node=&for=&group=&workload="]
)
def test_an_empty_value_in_the_address_is_the_usual_one(scheduler, visit, query):
    tab = visit(f"{scheduler.url}{query}").tab
    wait_text(tab, "#cluster-title", "60 nodes")
    assert tab.input_value("#coloring") == "cpu"
    assert not tab.is_visible("#trouble")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("?result=foo", "result=foo: expected one of scheduled, unschedulable, error"),
        (f"?namespace={'n' * 700}", "namespace: expected at most 600 characters"),
        (f"?coloring=pod:{'x' * 700}", "coloring: expected at most 600 characters"),
    ],
)
def test_a_choice_that_the_scheduler_refuses_is_told_and_can_be_changed(scheduler, chromium, query, sentence):
    tab = chromium.new_page()
    tab.goto(f"{scheduler.url}{query}")
    wait_text(tab, "#trouble", sentence)
    if not query.startswith("?coloring"):  # of colourings, none is known yet
        tab.select_option(f"#{query[1:].split('=')[0]}", "")
    else:
        tab.goto(scheduler.url)
    wait_text(tab, "#cluster-title", "60 nodes")
    wait_text(tab, "#live", "live")
    assert not tab.is_visible("#trouble")
    tab.close()
