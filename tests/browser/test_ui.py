"""The live page in a real browser."""

import re
import time
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from tests.browser.page import NODE, POD, SchedulerPage, nodes, pod
from tests.browser.steps import SHOWS, WORKLOAD, controlled, fits_without_findings, held, tab_to, wait_text
from tests.cluster.waiting import eventually
from wharfinger.daemon.live_page import reading
from wharfinger.framework.policy_status import MetricStatus
from wharfinger.model import objects
from wharfinger.web.ui.feed import MAX_WATCHERS

MEASURED = """policy "load"
metric busy: percent = prometheus("busy", node: "instance", max_age: 60s, min_coverage: 10%)
filter calm { require busy < 90% else "busy" on missing pass }
"""
EVIL = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>"
PIXEL = """([x, y]) => { const map = document.getElementById("map"), ratio = map.width / map.clientWidth;
  return [...map.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data].join() }"""


RING = """([x, y]) => { const map = document.getElementById("map"), ratio = map.width / map.clientWidth, at = (x, y) =>
  [...map.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data].join();
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--cursor");
  probe.fillRect(0, 0, 1, 1);
  return at(x, y) === [...probe.getImageData(0, 0, 1, 1).data].join() }"""
FIRST, SECOND = (1, 30), (31, 30)
"""Places on the left edge of the first and of the second tile, where the ring is."""


def test_the_cluster_is_drawn_and_follows_what_happens(scheduler, visit):
    found = visit(scheduler.url)
    assert found.title_of("cluster") == "Cluster · 60 nodes"
    before = found.tab.evaluate(PIXEL, [10, 30])

    scheduler.put([pod("big", cpu="6", node="node-00000")], POD)

    found.tab.wait_for_function(f"(before) => ({PIXEL})([10, 30]) !== before", arg=before)
    scheduler.put(nodes(61)[60:], NODE)
    wait_text(found.tab, "#cluster-title", "61 nodes")
    scheduler.remove("Node", "node-00060")
    wait_text(found.tab, "#cluster-title", "60 nodes")


def test_pods_that_wait_are_grouped_by_their_reasons(scheduler, visit):
    scheduler.put([pod(f"huge-{index}", cpu="900") for index in range(20)], POD)
    found = visit(scheduler.url)

    wait_text(found.tab, "#pending-title", "Pending pods · 20")
    assert found.tab.locator("#pending summary .why").all_inner_texts() == ["Insufficient cpu"]
    found.tab.locator("#pending summary").click()
    wait_text(found.tab, "#pending", "rejected by NodeResourcesFit")
    wait_text(found.tab, "#pending", "and 8 more")
    time.sleep(2.5)  # two further updates
    assert found.tab.locator("#pending details[open]").count() == 1


def test_pods_are_chosen_by_namespace_result_and_policy(scheduler, policies, visit):
    policies("apples", 'policy "apples"\nfor pods where (pod.labels["app"] ?? "") == "apple"\nprefer any = node.free.cpu > 1cpu\n')
    tab = visit(scheduler.url).tab
    wait_text(tab, "#policies", "apples")
    other = pod("other", cpu="900")
    other["metadata"]["namespace"] = "team"
    scheduler.put([pod("web"), pod("huge", cpu="900"), pod("apple", labels={"app": "apple"}), other], POD)
    wait_text(tab, "#pending-title", "· 2")

    def shows(decided, waiting, **chosen):
        for name in CHOSEN[1:]:
            tab.select_option(f"#{name}", chosen.get(name, ""))
        tab.wait_for_function(SHOWS, arg=["#decisions td.name", decided])
        tab.wait_for_function(SHOWS, arg=["#pending details td button", waiting])

    shows(["shop/apple", "shop/huge", "shop/web", "team/other"], ["shop/huge", "team/other"])
    shows(["shop/apple", "shop/huge", "shop/web"], ["shop/huge"], namespace="shop")
    shows(["shop/huge"], ["shop/huge"], namespace="shop", result="unschedulable")
    shows(["shop/apple"], [], policy="apples")
    shows([], [], policy="apples", result="error")
    wait_text(tab, "#decisions", "No recent decisions match the filters.")
    wait_text(tab, "#pending", "No pending pods match the filters.")


def test_the_last_hour_is_shown_in_curves(scheduler, visit):
    tab = visit(scheduler.url).tab
    scheduler.put([pod("web"), pod("huge", cpu="900")], POD)
    wait_text(tab, "#pending-title", "· 1")
    for _ in range(3):
        scheduler.ask(lambda page: page.history.add(reading(page.scheduler)))
    wait_text(tab, "#history", "Pending")
    said = tab.locator("#history figcaption").all_inner_texts()
    assert [text.split("\n")[0] for text in said] == ["Decisions per second", "Decision latency", "Pending", "Requested"]
    assert "P99" in said[1]
    assert "1" in said[2]
    assert "cpu" in said[3]
    assert all(
        path.count("M") + path.count("L") for path in tab.locator("#history path").evaluate_all("all => all.map(p => p.getAttribute('d'))")
    )


@pytest.mark.parametrize("width", [1360, 1000, 390])
def test_the_curves_of_a_row_stand_side_by_side(scheduler, visit, width):
    scheduler.put([pod("web")], POD)
    tab = visit(scheduler.url, viewport={"width": width, "height": 900}).tab
    wait_text(tab, "#decisions", "shop/web")
    for _ in range(2):
        scheduler.ask(lambda page: page.history.add(reading(page.scheduler)))
    wait_text(tab, "#history", "memory")
    figures = tab.locator("#history figure").evaluate_all(
        "all => all.map((each) => [each.offsetTop, each.querySelector('svg').getBoundingClientRect().top])"
    )
    assert len(figures) == 4
    assert len(set(map(tuple, figures))) == len({row for row, _ in figures})


def test_a_curve_has_a_gap_where_nothing_was_read(scheduler, visit):
    """As after a night in which the machine was suspended."""

    def add(page):
        for _ in range(2):
            page.history.add(reading(page.scheduler))
        page.history.points[0] = page.history.points[0]._replace(at=page.history.points[0].at - 600)
        page.history.points[1] = page.history.points[1]._replace(at=page.history.points[0].at + 10)
        for _ in range(2):
            page.history.add(reading(page.scheduler))

    scheduler.ask(add)
    tab = visit(scheduler.url).tab
    wait_text(tab, "#history", "Pending")
    path = tab.locator("#history figure", has_text="Pending").locator("path").get_attribute("d")
    assert (path.count("M"), path.count("L")) == (2, 2)


def test_the_health_of_the_api_server_and_of_each_metric_is_in_the_header(scheduler, policies, visit):
    tab = visit(scheduler.url).tab
    wait_text(tab, "#health .good", "API server")
    policies("load", MEASURED)
    status = MetricStatus(policy="load", name="busy", asked=True, fresh=3, nodes=60, wanted=0.5, youngest=1, oldest=2)
    scheduler.ask(lambda page: setattr(page.standing.signals, "metrics", [status]))
    wait_text(tab, "#health .good:nth-child(2)", "load/busy")
    scheduler.ask(lambda page: setattr(page.standing.signals, "metrics", [replace(status, suspended_since=1.0)]))
    wait_text(tab, "#health .bad", "fresh on 3 of 60 nodes")
    scheduler.ask(
        lambda page: setattr(page.standing, "contact", SimpleNamespace(unreachable_reason="no answer for 40 s", seconds_since_answer=40.0))
    )
    wait_text(tab, "#health .bad", "no answer for 40 s")


def test_the_authority_of_a_policy_is_reported(scheduler, visit):
    tab = visit(scheduler.url).tab
    wait_text(tab, "#policies .quiet", "cluster · ")


def test_a_workload_that_is_pasted_shows_where_it_would_go(scheduler, visit):
    tab = visit(scheduler.url).tab
    tab.fill("#workload", WORKLOAD.replace("CPU", "6"))
    tab.get_by_role("button", name="Try").click()
    wait_text(tab, "#whatif .headline", "All 3 pods would be scheduled, on 3 nodes")
    node = tab.locator("#whatif-answer td.wide button").first.inner_text()
    tab.fill("#find", node)
    wait_text(tab, "#under", "1 pod would be scheduled here")
    assert scheduler.ask(lambda page: len(page.scheduler.queue)) == 0  # nothing was changed
    tab.fill("#workload", WORKLOAD.replace("CPU", "900"))
    tab.get_by_role("button", name="Try").click()
    wait_text(tab, "#whatif .headline", "3 of 3 pods would be unschedulable")
    wait_text(tab, "#whatif-answer td.wide", "Insufficient cpu")
    tab.reload()
    tab.wait_for_function("() => document.getElementById('workload').value.includes('900')")


def test_nodes_to_drain_are_picked_on_the_map_by_keyboard_alone(scheduler, visit):
    scheduler.put([controlled("web", "node-00000"), controlled("api", "node-00000"), controlled("far", "node-00001")], POD)
    tab = visit(scheduler.url).tab
    wait_text(tab, "#whatif", "Nodes to drain")
    tab_to(tab, "pick")
    tab.keyboard.press("Enter")
    assert held(tab) == "map"
    tab.keyboard.press("Home")
    tab.keyboard.press("Enter")
    wait_text(tab, "#drained", "node-00000")
    wait_text(tab, "#under", "to be drained")
    tab.wait_for_function("() => location.search === '?drain=node-00000'")
    tab_to(tab, "whatif-try")
    tab.keyboard.press("Enter")
    wait_text(tab, "#whatif .headline", "All 2 pods would be scheduled")
    assert sorted(tab.locator("#whatif-answer td.name").all_inner_texts()) == ["shop/api", "shop/web"]
    scheduler.put([pod("bare", node="node-00000")], POD)
    tab_to(tab, "whatif-try")
    tab.keyboard.press("Enter")
    wait_text(tab, "#whatif .headline", "1 pod cannot be evicted")
    wait_text(tab, "#whatif-answer td.wide", "refused: no controller would create it again")
    tab.reload()
    wait_text(tab, "#drained", "node-00000")
    tab_to(tab, "node-00000 ×")
    tab.keyboard.press("Enter")
    wait_text(tab, "#drained", "none")


@pytest.mark.parametrize("width", [1360, 390])
def test_nodes_are_added_by_keyboard_alone(scheduler, visit, width):
    found = visit(scheduler.url, viewport={"width": width, "height": 844})
    tab = found.tab
    wait_text(tab, "#whatif", "Nodes to add")
    wait_text(tab, "#cluster-title", "60 nodes")
    tab.fill("#workload", WORKLOAD.replace("CPU", "6").replace("replicas: 3", "replicas: 400"))
    tab_to(tab, "add-count")
    tab.keyboard.type("10")
    tab_to(tab, "add-like")
    tab.keyboard.type("node-00007")
    assert "node-00007" in tab.locator("#add-names option").evaluate_all("all => all.map(option => option.value)")
    tab.keyboard.press("Enter")
    wait_text(tab, "#added", "10 like node-00007")
    tab.wait_for_function("() => location.search.includes('add=node-00007:10')")
    tab_to(tab, "whatif-try")
    tab.keyboard.press("Enter")
    wait_text(tab, "#whatif-answer", "of 10 added nodes would be used")
    wait_text(tab, "#whatif-answer td.wide", "0/70 nodes are available")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.reload()
    wait_text(tab, "#added", "10 like node-00007")
    tab_to(tab, "10 like node-00007 ×")
    tab.keyboard.press("Enter")
    wait_text(tab, "#added", "none")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "There is nothing to try"),
        ("a: [", "not YAML"),
        ("kind: Pod\nmetadata:\n\tname: web", "line 3 is indented with a tab, write spaces"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: web}", "This text creates no pods"),
        (WORKLOAD.replace("apiVersion: apps/v1", ""), "it has no apiVersion"),
        ("kind: Pod\nmetadata: {name: <script>}\nspec: 7", "spec"),
        ("7", "Document 1 is not an object of Kubernetes"),
    ],
)
def test_a_workload_that_cannot_be_tried_gets_the_reason(scheduler, visit, text, said):
    found = visit(scheduler.url)
    found.tab.fill("#workload", text)
    found.tab.get_by_role("button", name="Try").click()
    wait_text(found.tab, "#whatif .headline", said)
    found.expected = "400"


def test_a_slash_leads_to_the_search_which_finds_pods(scheduler, visit):
    scheduler.put([pod("web"), pod("website"), pod("api")], POD)
    tab = visit(scheduler.url).tab
    tab.focus("#coloring")
    tab.keyboard.press("/")
    assert held(tab) == "coloring"  # it may be a letter of a choice
    tab.focus("#map")
    tab.keyboard.press("/")
    assert held(tab) == "find"
    tab.keyboard.type("web")
    tab.wait_for_function(SHOWS, arg=["#results button", ["shop/web", "shop/website"]])
    tab.keyboard.press("Enter")
    tab.keyboard.press("Enter")
    wait_text(tab, "#detail-title", "shop/web")
    tab.evaluate("() => { document.getElementById('detail').close(); document.getElementById('find').focus(); }")
    tab.wait_for_function("() => !location.search.includes('pod=')")
    assert held(tab) == "find"  # the dialog does not take the keyboard from who has moved on
    wait_text(tab, "#found", "0 nodes found")
    tab.fill("#find", "")
    tab.wait_for_function("() => document.getElementById('results').hidden")


def test_decisions_show_their_scores(scheduler, visit):
    scheduler.put([pod("web")], POD)
    found = visit(scheduler.url)

    found.tab.get_by_role("button", name="shop/web").first.click()

    dialog = found.tab.get_by_role("dialog")
    wait_text(found.tab, "#detail", "NodeResourcesFit")
    wait_text(found.tab, "#detail .headline", "Bound to node-")
    assert "pools/ssd" in dialog.inner_text()
    found.tab.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_a_pod_that_waits_says_first_what_is_missing_and_what_would_have_to_change(scheduler, visit):
    scheduler.put([pod("huge", cpu="900")], POD)
    tab = visit(f"{scheduler.url}?pod=shop/huge").tab

    wait_text(tab, "#detail .headline", "0/60 nodes are available: Insufficient cpu")
    heads = tab.locator("#detail h3").all_inner_texts()
    assert heads == ["What would have to change", "Filters", "Earlier decisions"]
    assert "it would have to request at most" in tab.locator("#detail .card").first.inner_text()
    lefts = tab.locator("#detail .funnel .left").all_inner_texts()
    assert lefts == ["60 nodes left", "58 nodes left", "57 nodes left", "0 nodes left"]  # two are cordoned, one is tainted
    widths = tab.evaluate("[...document.querySelectorAll('#detail .funnel .fill')].map((fill) => fill.style.width)")
    assert widths == ["100%", "96.67%", "95%", "0%"]


def policies_of(page):
    return [policy.name for profile in page.scheduler.profiles for policy in profile.chain.policies]


def test_expressions_of_policies_are_set_as_code(scheduler, policies, visit):
    policies("room", 'policy "room"\nfilter room { require node.free.cpu - pod.requests.cpu >= 1cpu else "no room" }\n')
    eventually(lambda: "room" in scheduler.ask(policies_of))
    scheduler.put([pod("huge", cpu="900")], POD)
    tab = visit(f"{scheduler.url}?pod=shop/huge").tab
    wait_text(tab, "#detail .card code", "node.free.cpu - pod.requests.cpu")
    assert "`" not in tab.locator("#detail").inner_text()


def test_the_scores_of_the_best_nodes_stand_side_by_side(scheduler, visit):
    scheduler.put([pod("web", cpu="900m")], POD)
    tab = visit(f"{scheduler.url}?pod=shop/web").tab
    wait_text(tab, "#detail .scores", "pools/ssd")
    rows = tab.locator("#detail .scores").first.locator("tbody tr")
    for row in rows.all():
        boxes = [cell.bounding_box() for cell in row.locator(".track").all()]
        assert len(boxes) == 3
        assert len({(box["y"], round(box["width"])) for box in boxes}) == 1


def test_a_node_says_what_stands_against_the_pod_that_was_looked_at(scheduler, visit):
    scheduler.put([pod("huge", cpu="900")], POD)
    tab = visit(f"{scheduler.url}?pod=shop/huge").tab
    tab.locator("#detail .card button").first.click()

    wait_text(tab, "#detail", "For shop/huge: rejected by 1 filter")
    wait_text(tab, "#detail .card", "it would have to request at most")
    wait_text(tab, "#detail", "cpu: 900 wanted")
    wait_text(tab, "#detail", "Requested")


def put_gangs(scheduler):
    """Two groups, each in one zone: `small` fits, and `big` does not."""

    def group(name, least):
        spec = {
            "schedulingPolicy": {"gang": {"minCount": least}},
            "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/zone"}]},
        }
        return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}

    def member(name, number):
        made = pod(f"{name}-{number}", cpu="6")
        made["spec"]["schedulingGroup"] = {"podGroupName": name}
        return made

    scheduler.put([group("small", 3), group("big", 40)], objects.PodGroup)
    scheduler.put([*(member("small", number) for number in range(3)), *(member("big", number) for number in range(40))], POD)


@pytest.mark.parametrize("width", [1360, 390])
def test_groups_say_what_they_wait_for_and_where_they_are(scheduler, visit, width):
    tab = visit(scheduler.url, viewport={"width": width, "height": 844}).tab
    wait_text(tab, "#pending", "No pending pods.")
    assert not tab.locator("#groups").is_visible()
    put_gangs(scheduler)
    wait_text(tab, "#groups-title", "Groups · 2")
    wait_text(tab, "#groups", "waits for room")
    wait_text(tab, "#groups", "40 members must be placed at once")
    wait_text(tab, "#groups", "zone zone-")
    tab.get_by_role("button", name="shop/big", exact=True).focus()
    tab.keyboard.press("Enter")
    wait_text(tab, "#detail .headline", "waits for room")
    wait_text(tab, "#detail", "Insufficient cpu")
    assert tab.locator("#detail table").first.locator("tbody tr").count() == 10  # zones
    assert tab.url.endswith("?group=shop/big")
    tab.get_by_role("button", name="Show it on the map").click()
    wait_text(tab, "#legend", "of 40 waiting members")
    assert tab.input_value("#coloring") == "group:shop/big"
    tab.get_by_role("button", name="show shop/small on the map").click()
    wait_text(tab, "#legend", "3 members on")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


CHOSEN = ("find", "namespace", "result", "policy")


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("pod=shop/huge", ("#detail-title", "shop/huge")),
        ("node=node-00007&for=shop/huge", ("#detail", "For shop/huge")),
        ("node=node-00007", ("#detail .headline", "Not ready")),
        ("coloring=memory", ("#under", "arrow keys")),
        ("coloring=pod:shop/huge", ("#legend", "not feasible")),
        ("find=zone-3", ("#found", "6 nodes found")),
        ("drain=node-00003,node-00007", ("#drained", "node-00007")),
        ("add=node-00003:2", ("#added", "2 like node-00003")),
        ("find=hug", ("#results", "shop/huge")),
        ("namespace=shop&result=unschedulable&policy=pools", ("#decisions", "shop/huge")),
    ],
)
def test_every_view_has_an_address_that_outlives_a_reload(scheduler, visit, query, shown):
    scheduler.put([pod("huge", cpu="900")], POD)
    tab = visit(f"{scheduler.url}?{query}").tab
    wait_text(tab, *shown)
    tab.reload()
    wait_text(tab, *shown)
    asked = dict(part.split("=") for part in query.split("&"))
    tab.wait_for_function("(coloring) => document.getElementById('coloring').value === coloring", arg=asked.get("coloring", "cpu"))
    assert {name: tab.input_value(f"#{name}") for name in CHOSEN} == {name: asked.get(name, "") for name in CHOSEN}
    assert tab.url == f"{scheduler.url}?{query}"


def test_the_opened_object_is_in_the_address_and_back_returns_to_the_former_one(scheduler, visit):
    scheduler.put([pod("web")], POD)
    tab = visit(scheduler.url).tab
    tab.select_option("#coloring", "memory")
    assert tab.url.endswith("/ui?coloring=memory")
    tab.get_by_role("button", name="shop/web").first.click()
    assert tab.url.endswith("?coloring=memory&pod=shop/web")
    assert tab.title() == "shop/web · Wharfinger"
    tab.locator("#detail .scores button").first.click()
    wait_text(tab, "#detail", "For shop/web: the best of all nodes")
    tab.go_back()
    wait_text(tab, "#detail-title", "shop/web")
    tab.go_back()
    tab.wait_for_function("() => !document.getElementById('detail').open")
    assert tab.url.endswith("/ui?coloring=memory")
    tab.go_back()
    tab.wait_for_function("() => document.getElementById('coloring').value === 'cpu'")
    tab.go_forward()
    tab.go_forward()
    wait_text(tab, "#detail-title", "shop/web")
    tab.keyboard.press("Escape")
    tab.wait_for_function("() => !location.search.includes('pod=')")
    tab.fill("#find", "zone-3")
    tab.wait_for_function("() => location.search === '?coloring=memory&find=zone-3'")


def test_nodes_can_be_coloured_by_the_scores_of_a_pod(scheduler, visit):
    scheduler.put([pod("huge", cpu="30")], POD)
    found = visit(scheduler.url)
    found.tab.get_by_role("button", name="shop/huge").first.click()

    found.tab.get_by_role("button", name="Colour the map by its scores").click()

    wait_text(found.tab, "#legend", "nodes feasible")
    assert found.tab.locator("#cluster").bounding_box()["y"] >= -1  # in sight
    assert found.tab.input_value("#coloring") == "pod:shop/huge"
    found.tab.select_option("#coloring", "pods")
    wait_text(found.tab, "#legend", "100%")


def test_nodes_open_with_what_is_on_them(scheduler, visit):
    scheduler.put([pod("old", cpu="2", node="node-00000")], POD)
    found = visit(scheduler.url)

    found.tab.locator("#map").click(position={"x": 10, "y": 30})

    wait_text(found.tab, "#detail", "shop/old")
    assert found.tab.inner_text("#detail-title") == "node-00000"
    assert "2 cores of 8 cores" in found.tab.inner_text("#detail")


def put_devices(scheduler):
    """Devices on node-00000: one taken, one tainted, one shared; and two GPUs of node-00001 with a share of one."""
    pool = {"name": "pool-0", "generation": 1, "resourceSliceCount": 1}
    model = {"attributes": {"model": {"string": "A100"}}, "capacity": {"memory": {"value": "40Gi"}}}
    devices = [
        {"name": "gpu-0", **model},
        {"name": "gpu-1", **model, "taints": [{"key": "worn", "effect": "NoSchedule"}]},
        {"name": "gpu-2", **model, "allowMultipleAllocations": True},
    ]
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node-00000", "devices": devices}

    def claim(name, device, **more):
        result = {"request": "r", "driver": "gpu.example.com", "pool": "pool-0", "device": device, **more}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"resource": "pods", "name": "train", "uid": "t"}]}
        return {"metadata": {"name": name, "namespace": "shop", "uid": name}, "status": status}

    part = claim("part", "gpu-2", shareID="a", consumedCapacity={"memory": "10Gi"})
    scheduler.put([{"metadata": {"name": "slice"}, "spec": spec}], objects.ResourceSlice)
    scheduler.put([claim("whole", "gpu-0"), part], objects.ResourceClaim)
    milli = {"nvidia.com/gpu": "2", "alibabacloud.com/gpu-milli": "2000"}
    (node,) = nodes(2)[1:]
    node["status"]["allocatable"] |= milli
    sharer = pod("sharer", node="node-00001")
    sharer["metadata"]["annotations"] = {"alibabacloud.com/gpu-index": "1"}
    sharer["spec"]["containers"][0]["resources"]["requests"] |= {"nvidia.com/gpu": "1", "alibabacloud.com/gpu-milli": "300"}
    scheduler.put([node], NODE)
    scheduler.put([pod("train", node="node-00000"), sharer], POD)


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (390, "dark")])
def test_the_devices_of_a_node_are_cells_with_what_is_on_them(scheduler, visit, width, scheme):
    put_devices(scheduler)
    found = visit(f"{scheduler.url}?node=node-00000", viewport={"width": width, "height": 844}, color_scheme=scheme)
    wait_text(found.tab, "#detail", "Devices · 3: 1 taken, 1 free, 1 partly taken")
    taken, tainted, shared = found.tab.locator("#detail .cells > li").all_inner_texts()
    assert "A100" in taken
    assert "claim shop/whole" in taken
    assert "tainted: worn:NoSchedule" in tainted
    assert "30 GiB of 40 GiB memory left" in shared
    assert "claim shop/part; 10 GiB memory" in shared
    fits_without_findings(found.tab, width)
    tab_to(found.tab, "shop/train")
    found.tab.keyboard.press("Enter")
    wait_text(found.tab, "#detail-title", "shop/train")

    single = visit(f"{scheduler.url}?node=node-00001", viewport={"width": width, "height": 844}, color_scheme=scheme)
    wait_text(single.tab, "#detail", "Devices · 2: 1 free, 1 partly taken")
    free, shared = single.tab.locator("#detail .cells > li").all_inner_texts()
    assert "1,000 of 1,000 thousandths left" in free
    assert "700 of 1,000 thousandths left" in shared
    assert "shop/sharer" in shared
    fits_without_findings(single.tab, width)


def test_a_click_moves_the_focus_ring_and_the_caption(scheduler, visit):
    tab = visit(scheduler.url).tab
    tab.locator("#map").click(position={"x": 10, "y": 30})
    wait_text(tab, "#detail-title", "node-00000")
    tab.keyboard.press("Escape")
    tab.locator("#map").click(position={"x": 40, "y": 30})
    wait_text(tab, "#detail-title", "node-00010")
    tab.keyboard.press("Escape")
    tab.mouse.move(2, 2)

    wait_text(tab, "#under", "node-00010 ·")
    assert tab.evaluate(RING, SECOND)
    assert not tab.evaluate(RING, FIRST)
    tab.keyboard.press("ArrowLeft")
    wait_text(tab, "#under", "node-00000 ·")
    assert tab.evaluate(RING, FIRST)


def test_the_first_click_opens_the_node_it_is_on_however_far_the_map_is_scrolled(visit):
    with SchedulerPage() as page:
        page.put(nodes(5000), NODE)
        tab = visit(page.url, viewport={"width": 700, "height": 600}).tab
        tab.evaluate("document.getElementById('frame').scrollTop = 1e6")
        scrolled = tab.evaluate("document.getElementById('frame').scrollTop")
        frame = tab.locator("#frame").bounding_box()
        tab.mouse.move(frame["x"] + 20, frame["y"] + frame["height"] - 20)
        name = tab.inner_text("#under").split(" ·")[0]

        tab.mouse.down()
        tab.mouse.up()

        wait_text(tab, "#detail-title", name)
        assert scrolled == tab.evaluate("document.getElementById('frame').scrollTop") > 0


def test_enter_opens_a_node_and_the_same_key_does_not_close_it(scheduler, visit):
    tab = visit(scheduler.url).tab
    tab.focus("#map")
    tab.keyboard.down("Enter")
    wait_text(tab, "#detail-title", "node-00000")
    for _ in range(5):
        tab.keyboard.down("Enter")  # a key that is held comes again and again
    tab.keyboard.up("Enter")
    wait_text(tab, "#detail", "Requested")
    assert tab.evaluate("document.getElementById('detail').open")
    tab_to(tab, "detail-close", limit=2)
    tab.keyboard.press("Enter")
    assert not tab.evaluate("document.getElementById('detail').open")
    tab.wait_for_function("() => document.activeElement.id === 'map'")


def test_the_whole_page_is_used_by_keyboard(scheduler, visit):
    """From the first tabulator to the last dialog, nothing is clicked."""
    scheduler.put([pod("old", cpu="2", node="node-00000"), pod("web"), pod("huge", cpu="900")], POD)
    found = visit(scheduler.url)
    tab = found.tab
    wait_text(tab, "#decisions", "shop/web")
    wait_text(tab, "#pending", "Insufficient cpu")

    tab.keyboard.press("Tab")
    assert held(tab) == "Skip the map"
    tab_to(tab, "find")
    tab.keyboard.type("zone-3")
    wait_text(tab, "#found", "6 nodes found")
    tab.keyboard.press("Control+A")
    tab.keyboard.press("Delete")
    tab_to(tab, "coloring")
    tab.keyboard.press("ArrowDown")
    tab.wait_for_function("() => document.getElementById('coloring').value !== 'cpu'")
    tab_to(tab, "map")
    tab.keyboard.press("Home")
    wait_text(tab, "#under", "node-00000 ·")

    tab.keyboard.press("Enter")
    wait_text(tab, "#detail", "shop/old")
    tab_to(tab, "shop/old")
    tab.keyboard.press("Enter")
    wait_text(tab, "#detail-title", "shop/old")
    wait_text(tab, "#detail", "Bound to node-00000")
    tab_to(tab, "Colour the map by its scores")
    tab.keyboard.press("Escape")
    assert held(tab) == "map"

    for section, button, opened in (("#decisions", "shop/web", "Earlier decisions"), ("#pending", "shop/huge", "0/60 nodes are available")):
        if section == "#pending":
            tab_to(tab, "1")  # the group of pods that wait
            tab.keyboard.press("Enter")
        tab_to(tab, button)
        tab.keyboard.press("Enter")
        wait_text(tab, "#detail", opened)
        time.sleep(1.5)  # the panels are drawn again meanwhile, and with them the button that the dialog was opened from
        tab.keyboard.press("Escape")
        assert held(tab) == button
        assert tab.evaluate("(s) => document.querySelector(s).contains(document.activeElement)", section)

    tab.keyboard.press("Enter")
    tab_to(tab, "Colour the map by its scores")
    tab.keyboard.press("Enter")
    wait_text(tab, "#legend", "not feasible")
    assert tab.input_value("#coloring") == "pod:shop/huge"
    assert held(tab) == "map"


def test_the_keyboard_is_enough(scheduler, visit):
    found = visit(scheduler.url)
    tab = found.tab
    tab_to(tab, "map")
    wait_text(tab, "#under", "node-00000 ·")
    tab.keyboard.press("ArrowRight")
    wait_text(tab, "#under", "node-00010 ·")
    tab.keyboard.press("End")
    wait_text(tab, "#under", "node-00059 ·")
    tab.keyboard.press("Enter")
    wait_text(tab, "#detail-title", "node-00059")
    tab.keyboard.press("Escape")
    tab.wait_for_function("() => document.activeElement.id === 'map'")


def test_nodes_are_found_by_name_and_zone(scheduler, visit):
    found = visit(scheduler.url)
    found.tab.fill("#find", "zone-3")
    assert found.tab.inner_text("#found") == "6 nodes found"
    found.tab.fill("#find", "node-00042")
    assert found.tab.inner_text("#found") == "1 node found"
    wait_text(found.tab, "#under", "node-00042 ·")


def test_found_nodes_follow_changes_and_the_cursor_stays(scheduler, visit):
    tab = visit(scheduler.url).tab
    tab.fill("#find", "node-0000")
    tab.focus("#map")
    tab.keyboard.press("End")
    wait_text(tab, "#under", "node-00059 ·")
    scheduler.remove("Node", "node-00005")
    wait_text(tab, "#found", "9 nodes found")
    wait_text(tab, "#cluster-title", "59 nodes")
    assert tab.inner_text("#under").startswith("node-00059 ·")


def test_a_cluster_of_one_node_is_titled_in_the_singular(visit):
    with SchedulerPage() as page:
        page.put(nodes(1), NODE)
        assert visit(page.url).title_of("cluster") == "Cluster · 1 node"


def test_without_nodes_the_map_has_no_cursor(visit):
    with SchedulerPage() as page:
        found = visit(page.url)
        assert (found.title_of("cluster"), found.tab.inner_text("#under").strip()) == ("Cluster · 0 nodes", "")


def test_without_nodes_a_pod_that_waits_says_so_once(visit):
    with SchedulerPage() as page:
        page.put([pod("web")], POD)
        tab = visit(f"{page.url}?pod=shop/web").tab
        wait_text(tab, "#detail .verdict", "No nodes available to schedule pods")
        assert tab.inner_text("#detail").lower().count("no nodes available") == 1
        assert "Filters" not in tab.locator("#detail h3").all_inner_texts()


def test_a_page_above_the_limit_is_reported_and_waits(scheduler, chromium):
    others = [scheduler.ask(lambda page: page.page.feed.join("cpu")) for _ in range(MAX_WATCHERS)]
    tab = chromium.new_page()
    tab.goto(scheduler.url)
    wait_text(tab, "#trouble", f"{MAX_WATCHERS} pages are already open")
    scheduler.ask(lambda page: [page.page.feed.leave(other) for other in others])
    wait_text(tab, "#live", "live")
    assert not tab.is_visible("#trouble")
    tab.close()


def test_hidden_tabs_close_their_connection(scheduler, visit):
    tab = visit(scheduler.url).tab
    see = """(hidden) => { Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange")); }"""
    tab.evaluate(see, True)
    eventually(lambda: scheduler.ask(lambda page: len(page.page.feed)) == 0)
    scheduler.put(nodes(61)[60:], NODE)
    tab.evaluate(see, False)
    wait_text(tab, "#cluster-title", "61 nodes")
    wait_text(tab, "#live", "live")


def test_an_edit_that_is_refused_shows_with_its_place(scheduler, policies, visit):
    found = visit(scheduler.url)
    wait_text(found.tab, "#policies", "active")

    policies("pools", 'policy "pools"\nfilter a { require node.lables["x"] == "y" }\n')

    wait_text(found.tab, "#policies", "kept")
    wait_text(found.tab, "#policies", "pools.policy:2:25 P302")
    wait_text(found.tab, "#reloads", "The former version stays active.")


def test_nothing_that_others_have_written_is_run(scheduler, policies, visit):
    name = "evil"
    evil = pod(name, cpu="900", labels={"app": EVIL})
    evil["metadata"]["name"] = EVIL
    scheduler.put([evil], POD)
    node = nodes(1)[0]
    node["metadata"]["name"] = f"node-{EVIL}"
    node["metadata"]["labels"] |= {EVIL: EVIL, "topology.kubernetes.io/zone": EVIL}
    node["spec"]["taints"] = [{"key": EVIL, "value": EVIL, "effect": "NoSchedule"}]
    scheduler.put([node], NODE)
    policies("evil", f'policy "evil"\nfilter a {{ require node.lables["{EVIL}"] == "y" }}\n')
    found = visit(scheduler.url)

    wait_text(found.tab, "#reloads", "<script>")
    found.tab.locator("#pending summary").first.click()
    wait_text(found.tab, "#pending", EVIL)
    found.tab.fill("#find", "script")
    wait_text(found.tab, "#under", EVIL)
    found.tab.locator("#map").focus()
    found.tab.keyboard.press("Enter")
    wait_text(found.tab, "#detail", EVIL)
    found.tab.keyboard.press("Escape")
    found.tab.get_by_role("button", name=f"shop/{EVIL}").first.click()
    wait_text(found.tab, "#detail .verdict", "is not a pod")

    found.expected = "404"  # no pod has a slash in its name
    assert found.tab.evaluate("window.pwned") is None
    assert found.tab.locator("img").count() == 1  # the icon
    assert not [url for url in found.requests if url.endswith("/x")]


def test_the_page_sends_requests_to_its_server_alone_and_may_run_nothing_inline(scheduler, visit):
    found = visit(scheduler.url)
    origin = scheduler.url.removesuffix("/ui")

    assert {re.match(r"https?://[^/]+", url)[0] for url in found.requests} == {origin}
    blocked = found.tab.evaluate(
        """() => new Promise((resolve) => {
             document.addEventListener("securitypolicyviolation", (event) => resolve(event.violatedDirective), { once: true });
             const script = document.createElement("script");
             try { script.src = "https://example.com/x.js"; document.body.append(script); } catch {}
             setTimeout(() => resolve("nothing"), 3000); })"""
    )
    assert blocked.startswith(("script-src", "require-trusted-types-for"))
    found.expected = "TrustedScriptURL"


def test_a_page_whose_scheduler_has_gone_is_reported_and_comes_back_by_itself(scheduler, visit):
    found = visit(scheduler.url)
    wait_text(found.tab, "#live", "live")
    scheduler.ask(lambda page: [page.page.feed.leave(watcher) for watcher in list(page.page.feed._watchers)])
    wait_text(found.tab, "#live", "no data since")
    wait_text(found.tab, "#live", "live")
    found.expected = "Failed to load resource"  # the connection that was cut


VIEWS = (
    "?drain=node-00001",
    "",
    "?pod=shop/huge",
    "?pod=shop/web",
    "?node=node-00007&for=shop/huge",
    "?group=shop/big&coloring=group:shop/big",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1360, 768, 390])
def test_every_view_fits_and_has_no_serious_finding_of_axe(scheduler, visit, width, scheme):
    scheduler.put([pod("web"), pod("huge", cpu="900")], POD)
    put_gangs(scheduler)
    for view in VIEWS:
        found = visit(f"{scheduler.url}{view}", viewport={"width": width, "height": 844}, color_scheme=scheme)
        wait_text(found.tab, "#detail .verdict" if any(name in view for name in ("pod=", "node=", "group=")) else "#policies", "")
        if "drain" in view:
            found.tab.get_by_role("button", name="Try").click()
            wait_text(found.tab, "#whatif .verdict", "")
        fits_without_findings(found.tab, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(scheduler, visit, scheme):
    found = visit(scheduler.url, color_scheme=scheme)
    wait_text(found.tab, "#policies", "active")
    low = found.tab.evaluate(CONTRAST)
    assert low == []


CONTRAST = """() => {
  const numbers = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => { for (; node; node = node.parentElement) { const found = numbers(getComputedStyle(node).backgroundColor); if (found.length === 3 || found[3] > 0) return found; } return [255, 255, 255]; };
  return [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility() && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
    .map((node) => { const pair = [light(numbers(getComputedStyle(node).color)), light(ground(node))].sort((a, b) => b - a); return [node.tagName, node.className, node.innerText.slice(0, 20), (pair[0] + 0.05) / (pair[1] + 0.05)]; })
    .filter((found) => found[3] < 4.5);
}"""  # noqa: E501 — a script, which reads as badly in more lines


def test_everything_that_can_be_used_has_a_name(scheduler, visit):
    found = visit(scheduler.url)
    wait_text(found.tab, "#policies", "active")
    nameless = found.tab.evaluate(
        """() => [...document.querySelectorAll("button, input, select, canvas, meter, section, dialog, [role=region]")]
             .filter((node) => node.getAttribute("aria-hidden") !== "true")
             .filter((node) => !node.getAttribute("aria-label") && !node.getAttribute("aria-labelledby"))
             .filter((node) => !node.labels?.length && !node.innerText)
             .map((node) => node.outerHTML.slice(0, 80))"""
    )
    assert nameless == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_links_have_one_colour(scheduler, visit, scheme):
    scheduler.put([pod("web")], POD)
    tab = visit(scheduler.url, color_scheme=scheme).tab
    wait_text(tab, "#decisions", "shop/web")
    colours = tab.evaluate("""() => [...document.querySelectorAll("a:not(.skip), button.link")].filter((link) => link.checkVisibility())
        .map((link) => getComputedStyle(link).color)""")
    assert len(set(colours)) == 1


def test_small_screens_need_no_horizontal_scrolling(scheduler, visit):
    found = visit(scheduler.url, viewport={"width": 400, "height": 800})
    wait_text(found.tab, "#policies", "active")
    assert found.tab.evaluate("document.documentElement.scrollWidth") <= 400


def test_on_a_telephone_each_decision_still_says_where(scheduler, visit):
    scheduler.put([pod("web"), pod("huge", cpu="900"), pod("a-controller-with-a-long-name-7d9f8c6b5d-x2x7z", cpu="900")], POD)
    tab = visit(scheduler.url, viewport={"width": 390, "height": 844}).tab
    wait_text(tab, "#decisions", "shop/web")
    wait_text(tab, "#decisions", "x2x7z")
    cut_off = tab.evaluate(
        """() => { const box = document.querySelector("#decisions .scroll").getBoundingClientRect();
             return [...document.querySelectorAll("#decisions td, #policies td")].filter((cell) => cell.checkVisibility())
               .filter((cell) => cell.getBoundingClientRect().right > box.right + 1).map((cell) => cell.innerText) }"""
    )
    assert cut_off == []


@pytest.mark.parametrize("count", [1000, 5000])
def test_large_clusters_are_painted(count, visit):
    with SchedulerPage() as page:
        page.put(nodes(count), NODE)
        found = visit(page.url)  # which waits until the map is drawn; tests/browser/figures.py measures how long that takes
        assert found.title_of("cluster") == f"Cluster · {count:,} nodes"
