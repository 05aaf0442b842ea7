"""The live page in use while news arrive: clicks, selections, the keyboard, the map, and the way from one part to another."""

import pytest

from tests.browser.page import NODE, POD, SchedulerPage, nodes, pod
from tests.browser.steps import SHOWS, controlled, held, tab_to, wait_text
from wharfinger.daemon.live_page import reading
from wharfinger.web.ui import feed

OFFERED = "([id, value, is]) => [...document.getElementById(id).options].some((option) => option.value === value) === is"
WATCH_FLASHES = """() => { const map = document.getElementById("map"), context = map.getContext("2d"), fill = context.fillRect;
  const none = getComputedStyle(document.documentElement).getPropertyValue("--none").trim();
  Object.assign(window, { drawn: 0, flashes: 0 });
  context.fillRect = function (...box) {
    window.drawn += 1;
    if (this.fillStyle === none && box[0] === 0 && box[1] === 20) window.flashes += 1;
    fill.apply(this, box);
  } }"""
SAYS = """(text) => { const { content } = getComputedStyle(document.querySelector("#decisions h2"), "::after");
  return text ? content.includes(text) : content === "none" }"""


def middle(tab, selector, text):
    """The middle of what has that text."""
    box = tab.locator(selector, has_text=text).first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def decided(tab, total):
    """Waits until the page has the news of that many decisions."""
    wait_text(tab, "#rate", f"{total} so far")


def test_a_click_counts_although_news_arrive_while_the_button_is_down(scheduler, visit):
    tab = visit(scheduler.url).tab
    scheduler.put([pod("web")], POD)
    wait_text(tab, "#decisions", "shop/web")
    tab.mouse.move(*middle(tab, "#decisions button", "shop/web"))
    tab.mouse.down()
    scheduler.put([pod("api")], POD)
    decided(tab, 2)
    assert "shop/api" not in tab.inner_text("#decisions")
    tab.mouse.up()
    wait_text(tab, "#detail-title", "shop/web")
    tab.keyboard.press("Escape")
    wait_text(tab, "#decisions", "shop/api")


def test_a_group_opens_although_news_arrive_while_the_button_is_down(scheduler, visit):
    tab = visit(scheduler.url).tab
    scheduler.put([pod("huge", cpu="900")], POD)
    wait_text(tab, "#pending-title", "· 1")
    tab.mouse.move(*middle(tab, "#pending summary", "Insufficient cpu"))
    tab.mouse.down()
    scheduler.put([pod("more", cpu="900")], POD)
    wait_text(tab, "#pending-title", "· 2")
    tab.mouse.up()
    wait_text(tab, "#pending", "rejected by NodeResourcesFit")
    wait_text(tab, "#pending", "shop/more")


def test_a_space_bar_counts_although_news_arrive_while_it_is_down(scheduler, visit):
    tab = visit(scheduler.url).tab
    scheduler.put([pod("web")], POD)
    wait_text(tab, "#decisions", "shop/web")
    tab_to(tab, "shop/web")
    tab.keyboard.down(" ")
    scheduler.put([pod("api")], POD)
    decided(tab, 2)
    tab.keyboard.up(" ")
    wait_text(tab, "#detail-title", "shop/web")


def test_selected_text_stays_selected_until_it_is_copied(scheduler, visit):
    tab = visit(scheduler.url).tab
    scheduler.put([pod("web")], POD)
    wait_text(tab, "#decisions", "shop/web")
    tab.evaluate("getSelection().selectAllChildren(document.querySelector('#decisions td.name'))")
    scheduler.put([pod("api")], POD)
    decided(tab, 2)
    assert tab.evaluate("getSelection().toString()").strip() == "shop/web"
    assert "shop/api" not in tab.inner_text("#decisions")
    tab.evaluate("getSelection().removeAllRanges()")
    wait_text(tab, "#decisions", "shop/api")


def test_a_panel_that_waits_for_a_selection_says_so(scheduler, visit):
    tab = visit(scheduler.url).tab
    scheduler.put([pod("web")], POD)
    wait_text(tab, "#decisions", "shop/web")
    tab.evaluate("getSelection().selectAllChildren(document.querySelector('#decisions td.name'))")
    scheduler.put([pod("api")], POD)
    tab.wait_for_function(SAYS, arg="paused while text in it is selected")
    assert tab.locator("[data-held]").count() == 1
    tab.evaluate("getSelection().removeAllRanges()")
    wait_text(tab, "#decisions", "shop/api")
    assert tab.evaluate(f"({SAYS})('')")


def test_a_table_that_is_scrolled_by_the_keyboard_keeps_it(scheduler, visit):
    tab = visit(scheduler.url).tab
    scheduler.put([pod(f"web-{number:02d}") for number in range(30)], POD)
    decided(tab, 30)
    tab.focus("#decisions .scroll")
    scheduler.put([pod("news")], POD)
    wait_text(tab, "#decisions", "shop/news")
    assert tab.evaluate("document.activeElement.matches('#decisions .scroll')")


def test_a_node_can_be_drained_from_its_dialog(scheduler, visit):
    scheduler.put([controlled("web", "node-00000")], POD)
    tab = visit(f"{scheduler.url}?node=node-00000").tab
    wait_text(tab, "#detail .verdict", "Ready")
    tab_to(tab, "What if it is drained?")
    tab.keyboard.press("Enter")
    wait_text(tab, "#whatif .headline", "The pod would be scheduled")
    assert not tab.evaluate("document.getElementById('detail').open")
    assert tab.inner_text("#drained") == "node-00000 ×"
    assert held(tab) == "whatif-try"
    tab.wait_for_function("() => location.search === '?drain=node-00000'")


def test_small_zones_stand_side_by_side_and_the_arrow_keys_follow_the_picture(scheduler, visit):
    tab = visit(scheduler.url).tab
    wait_text(tab, "#cluster-title", "60 nodes")
    assert tab.locator("#map").bounding_box()["height"] < 200  # and not ten zones below each other
    tab.focus("#map")
    moves = [("Home", 0), ("ArrowDown", 4), ("ArrowDown", 8), ("ArrowDown", 8), ("ArrowUp", 4), ("ArrowRight", 14), ("ArrowUp", 10)]
    for key, name in moves:
        tab.keyboard.press(key)
        wait_text(tab, "#under", f"node-{name:05d} ·")


def test_a_large_zone_has_the_whole_width(visit):
    with SchedulerPage() as page:
        page.put(nodes(2000), NODE)
        tab = visit(page.url).tab
        wait_text(tab, "#cluster-title", "2,000 nodes")
        tab.focus("#map")
        tab.keyboard.press("Home")
        tab.keyboard.press("ArrowDown")
        below = tab.inner_text("#under").split(" ·")[0]
        tab.keyboard.press("ArrowUp")
        wait_text(tab, "#under", "node-00000 ·")
        assert "zone-0" in below or int(below[-5:]) % 10 == 0


@pytest.mark.parametrize(("width", "before"), [(1360, "groups"), (768, "groups"), (390, "groups")])
def test_what_waits_is_near_the_top_at_each_width(scheduler, visit, width, before):
    tab = visit(scheduler.url, viewport={"width": width, "height": 900}).tab
    wait_text(tab, "#policies", "active")
    assert tab.evaluate("document.getElementById('pending').previousElementSibling.id") == before
    tops = {name: tab.locator(f"#{name}").bounding_box()["y"] for name in ("pending", "whatif", "decisions", "policies")}
    assert min(tops, key=tops.get) == "pending"


def test_namespaces_of_decisions_can_be_chosen_too(scheduler, visit):
    tab = visit(scheduler.url).tab
    scheduler.put([pod("web")], POD)
    wait_text(tab, "#decisions", "shop/web")
    assert "shop" in tab.locator("#namespace option").all_inner_texts()


def test_a_cause_leads_to_its_namespaces(scheduler, visit):
    other = pod("other", cpu="900")
    other["metadata"]["namespace"] = "team"
    scheduler.put([pod("huge", cpu="900"), pod("huger", cpu="900"), other], POD)
    tab = visit(scheduler.url).tab
    wait_text(tab, "#pending-title", "· 3")
    tab.locator("#pending summary").click()
    wait_text(tab, "#pending", "in shop 2, team 1")
    tab.get_by_role("button", name="only namespace team").click()
    tab.wait_for_function(SHOWS, arg=["#pending details td button", ["team/other"]])
    assert tab.input_value("#namespace") == "team"
    assert tab.url.endswith("?namespace=team")


def test_the_search_says_how_many_pods_it_found(scheduler, visit):
    scheduler.put([pod("web"), pod("website")], POD)
    tab = visit(scheduler.url).tab
    tab.fill("#find", "web")
    wait_text(tab, "#found", "0 nodes found, 2 pods")
    tab.fill("#find", "nothing-of-this-name")
    wait_text(tab, "#found", "0 nodes found, 0 pods")


def test_a_page_that_is_open_for_long_keeps_its_size(scheduler, visit, monkeypatch):
    """Many updates leave neither elements nor listeners behind."""
    monkeypatch.setattr(feed, "INTERVAL", 0.02)
    monkeypatch.setattr(feed, "MAX_TIME_SHARE", 1.0)
    tab = visit(scheduler.url).tab
    scheduler.put([pod(f"web-{number}") for number in range(60)], POD)
    decided(tab, 60)
    session = tab.context.new_cdp_session(tab)

    def counted():
        session.send("HeapProfiler.collectGarbage")
        found = session.send("Memory.getDOMCounters")
        return found["nodes"], found["jsEventListeners"]

    before = counted()
    for number in range(60):
        scheduler.put([pod(f"more-{number}")], POD)
        decided(tab, 61 + number)
    after = counted()
    assert after[0] < before[0] * 1.2
    assert after[1] < before[1] * 1.2


@pytest.mark.parametrize(("field", "text"), [("#find", "node-1"), ("#workload", "kind: Pod")])
def test_what_was_typed_is_there_after_a_reload_at_once(scheduler, visit, field, text):
    tab = visit(scheduler.url).tab
    tab.fill(field, text)
    tab.keyboard.press("Tab")
    tab.reload()
    tab.wait_for_function("([field, text]) => document.querySelector(field).value === text", arg=[field, text])


def test_an_answer_is_marked_when_its_question_has_changed(scheduler, visit):
    scheduler.put([controlled("web", "node-00000")], POD)
    tab = visit(f"{scheduler.url}?drain=node-00000").tab
    tab.click("#whatif-try")
    wait_text(tab, "#whatif .headline", "The pod would be scheduled")
    assert tab.inner_text("#whatif-changed") == ""
    tab.fill("#workload", "kind: Pod")
    wait_text(tab, "#whatif-changed", "was changed after this answer")
    tab.fill("#workload", "")
    tab.wait_for_function("() => !document.getElementById('whatif-changed').textContent")
    tab.get_by_role("button", name="do not drain node-00000").click()
    wait_text(tab, "#whatif-changed", "was changed after this answer")
    tab.click("#whatif-clear")
    assert tab.inner_text("#whatif-changed") == tab.inner_text("#whatif-answer") == ""


def test_a_node_with_many_pods_says_how_many_are_not_listed(scheduler, visit):
    scheduler.put([pod(f"web-{number}", cpu="1m", memory="1Mi", node="node-00000") for number in range(500)], POD)
    tab = visit(f"{scheduler.url}?node=node-00000").tab
    wait_text(tab, "#detail", "Pods · 500")
    wait_text(tab, "#detail", "and 250 more")


def test_namespaces_and_policies_that_are_gone_do_not_fill_the_choices(scheduler, policies, visit):
    policies("former", 'policy "former"\nfilter a { require node.free.cpu > 0cpu else "none" }\n')
    tab = visit(scheduler.url).tab
    wait_text(tab, "#policies", "former")
    namespaces = [f"review-{number:04d}" for number in range(1500)]
    for start in range(0, 1500, 150):
        made = [pod("web", cpu="900") for _ in range(150)]
        for namespace, each in zip(namespaces[start : start + 150], made, strict=True):
            each["metadata"] |= {"namespace": namespace, "uid": namespace}
        scheduler.put(made, POD)
        tab.wait_for_function(OFFERED, arg=["namespace", namespaces[start + 149], True])
        for namespace in namespaces[start : start + 150]:
            scheduler.remove("Pod", f"{namespace}/web")
    assert tab.locator("#namespace option").count() <= 401
    (policies.folder / "former.policy").unlink()
    tab.wait_for_function(OFFERED, arg=["policy", "former", False])


def test_nodes_that_come_and_go_do_not_make_the_map_flash(scheduler, visit):
    """Between the names of the nodes and their values, those that were there keep their colours."""
    scheduler.put([pod("big", cpu="6", node="node-00000")], POD)
    tab = visit(scheduler.url).tab
    tab.evaluate(WATCH_FLASHES)
    for count in (61, 62, 63):
        scheduler.put(nodes(count)[count - 1 :], NODE)
        wait_text(tab, "#cluster-title", f"{count} nodes")
    assert tab.evaluate("window.drawn") > 0
    assert tab.evaluate("window.flashes") == 0


def test_the_reasons_of_few_and_of_many_pods_begin_below_each_other(scheduler, visit):
    scheduler.put([pod(f"many-{number}", cpu="900") for number in range(1200)], POD)
    scheduler.put([pod("one", memory="900Ti")], POD)
    tab = visit(scheduler.url).tab
    wait_text(tab, "#pending", "Insufficient memory")
    tab.wait_for_function("() => document.querySelector('#pending .count').textContent === '1,200'", timeout=120_000)
    begins = tab.locator("#pending .why").evaluate_all("all => all.map((found) => found.getBoundingClientRect().left)")
    assert len(begins) == 2
    assert len(set(begins)) == 1


def test_the_names_of_resources_are_not_cut(scheduler, visit):
    node = nodes(1)[0]
    for which in ("allocatable", "capacity"):
        node["status"][which] |= {"vendor.example.com/a-resource-with-a-name": "123456789012"}
    scheduler.put([node], NODE)
    tab = visit(scheduler.url).tab
    wait_text(tab, "#resources", "vendor.example.com/a-resource-with-a-name")
    cut = tab.locator(".meter span").evaluate_all(
        "all => all.filter((found) => found.scrollWidth > found.clientWidth + 1).map((found) => found.innerText)"
    )
    assert cut == []


def test_a_cluster_without_requests_has_no_strange_numbers(visit):
    with SchedulerPage() as page:
        page.put(nodes(2), NODE)
        for _ in range(2):
            page.ask(lambda page: page.history.add(reading(page.scheduler)))
        tab = visit(f"{page.url}?node=node-00000").tab
        wait_text(tab, "#detail .verdict", "0 pods")
        assert "most requested" not in tab.inner_text("#detail .verdict")
        assert "0%" in tab.locator("#history figure", has_text="Requested").inner_text()
