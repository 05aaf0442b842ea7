"""The map of nodes in a real browser: what it draws, and how much of it for each news."""

import random

import pytest

from tests.browser.page import NODE, POD, SchedulerPage, nodes, pod
from tests.browser.steps import wait_text
from wharfinger.web.ui import feed

COUNT_WORK = """() => { window.work = { drawn: 0, sorted: 0 };
  const { fillRect } = CanvasRenderingContext2D.prototype, { sort } = Array.prototype;
  CanvasRenderingContext2D.prototype.fillRect = function (...box) { window.work.drawn += 1; return fillRect.apply(this, box); };
  Array.prototype.sort = function (...how) { window.work.sorted += this.length; return sort.apply(this, how); }; }"""
PICTURE = "document.getElementById('map').toDataURL()"
ZONE = "topology.kubernetes.io/zone"


def test_a_page_that_is_opened_draws_each_node_once(visit):
    """And not without a colour before: the first picture of 50,000 nodes would take half as long again."""
    with SchedulerPage() as page:
        page.put(nodes(3000), NODE)
        tab = visit(page.url).tab
        tab.wait_for_timeout(1000)
        tab.add_init_script(f"({COUNT_WORK})()")
        tab.reload()
        tab.wait_for_selector("html[data-painted]", state="attached")
        assert 3000 <= tab.evaluate("window.work.drawn") < 4000


def test_a_node_that_comes_or_goes_is_drawn_alone(visit):
    """A page of 5,000 nodes draws and sorts a few of them: 50,000 nodes would take a second of a CPU otherwise."""
    made = nodes(5002)
    with SchedulerPage() as page:
        page.put(made[:5000], NODE)
        tab = visit(page.url).tab
        wait_text(tab, "#cluster-title", "5,000 nodes")
        tab.evaluate(COUNT_WORK)
        page.put(made[5000:5001], NODE)
        wait_text(tab, "#cluster-title", "5,001 nodes")
        page.put(made[5001:], NODE)
        wait_text(tab, "#cluster-title", "5,002 nodes")
        page.remove("Node", "node-04000")
        wait_text(tab, "#cluster-title", "5,001 nodes")
        work = tab.evaluate("window.work")
        assert 0 < work["drawn"] < 600
        assert work["sorted"] < 1000


@pytest.mark.parametrize("zones", [["a"], ["a", "b", "c", "long-name-of-a-zone", ""], [f"z{number}" for number in range(40)]], ids=len)
def test_the_map_after_many_changes_is_that_of_a_page_opened_then(visit, monkeypatch, zones):
    """Whatever came, went and changed meanwhile, nothing of it is left on the canvas."""
    monkeypatch.setattr(feed, "INTERVAL", 0.02)
    monkeypatch.setattr(feed, "MAX_TIME_SHARE", 1.0)
    chance = random.Random(11)
    made = nodes(420)
    for node in made:
        zone = chance.choice(zones)
        node["metadata"]["labels"].pop(ZONE, None)
        node["metadata"]["labels"] |= {ZONE: zone} if zone else {}
        node["spec"]["taints"] = [{"key": "a", "effect": "NoSchedule"}] if chance.random() < 0.2 else []
    chance.shuffle(made)
    there, later = made[:200], made[200:]
    with SchedulerPage() as page:
        page.put(there, NODE)
        tab = visit(page.url).tab
        for turn in range(40):
            number = chance.randrange(6)
            coming, later = later[:number], later[number:]
            there += coming
            page.put(coming, NODE)
            for _ in range(chance.randrange(5)):
                page.remove("Node", there.pop(chance.randrange(len(there)))["metadata"]["name"])
            page.put([pod(f"p{turn}", cpu="3", node=chance.choice(there)["metadata"]["name"])], POD)
            if turn % 8 == 0:
                tab.fill("#find", chance.choice(["", "node-001", "z1"]))
            tab.hover("#map", position={"x": 5 + 7 * turn, "y": 30}, force=True)
            wait_text(tab, "#cluster-title", f" {len(there)} nodes")
        tab.fill("#find", "")
        tab.mouse.move(5, 5)
        page.put([pod("last", cpu="6", node=there[0]["metadata"]["name"])], POD)
        tab.wait_for_timeout(500)
        fresh = visit(page.url).tab
        fresh.wait_for_timeout(500)
        for each in (tab, fresh):  # with the cursor on one node
            each.focus("#map")
            each.keyboard.press("Home")
        assert tab.evaluate(PICTURE) == fresh.evaluate(PICTURE)
