"""The playground in a real browser."""

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.page import NODE, POD, PlaygroundPage, nodes, pod
from tests.browser.test_ui import CONTRAST, EVIL, held, tab_to, wait_text

BROKEN = 'policy "p"\nfilter a { require node.lables["x"] == "y" }\n'
TEAM = """policy "team"
filter team { require (node.labels["team"] ?? "") == "search" else "not of the team" }
test "goes home" {
  node home { labels: { team: "search" } }
  node other { }
  pod web { requests: { cpu: 1cpu } }
  place web
  expect web on home
}
"""
CONTENT = "#editor .cm-content"


@pytest.fixture(scope="module")
def playground():
    with PlaygroundPage() as page:
        yield page


def write(tab, text):
    """Replaces the policy by a text, as if it was pasted."""
    tab.focus(CONTENT)
    tab.keyboard.press("Control+A")
    tab.keyboard.insert_text(text)


def text_of(tab):
    """The policy in the editor; the browser's own lines leave out what is not in view."""
    return tab.evaluate("async () => (await import('./playground/static/link.js')).read(location.hash).then((found) => found?.text)")


def test_the_page_shows_who_passes_who_wins_and_why(playground, visit):
    tab = visit(playground.url).tab

    wait_text(tab, "#answer", "Would be scheduled on node-007 now")
    wait_text(tab, "#answer", "a pod of priority 2000 does not go to a spot node")
    assert tab.inner_text("#cluster-title") == "Cluster · 12 nodes"
    assert tab.inner_text("#tests-title") == "Tests · 4 passed"
    assert "6 of 12 nodes feasible" in tab.inner_text("#legend")
    tab.focus("#map")
    tab.keyboard.press("End")
    wait_text(tab, "#under", "node-011 · points for shop/checkout-new")


def test_typed_text_is_checked_and_the_map_is_updated(playground, visit):
    tab = visit(playground.url).tab

    write(tab, BROKEN)
    wait_text(tab, "#problems", "P302")
    wait_text(tab, "#state", "error")
    wait_text(tab, "#answer", "The policy has errors")
    assert tab.locator("#editor .cm-lintRange-error").count() >= 1
    tab.locator("#problems button").first.click()
    assert tab.evaluate("document.activeElement.id") == "editor"

    write(tab, TEAM)
    wait_text(tab, "#tests-title", "Tests · 1 passed")
    tab.fill("#pod", "shop/query")
    tab.keyboard.press("Enter")
    wait_text(tab, "#answer", "Without the policy: node-007")
    wait_text(tab, "#legend", "2 of 12 nodes feasible")
    tab.locator("#tests summary").first.click()
    wait_text(tab, "#tests", "team/team: not of the team")


def test_a_failing_test_says_where_and_with_which_values(playground, visit):
    tab = visit(playground.url).tab

    write(tab, TEAM.replace("expect web on home", "expect web on other"))

    wait_text(tab, "#tests-title", "Tests · 0 passed, 1 failed")
    wait_text(tab, "#tests", "web is on home, not on other")
    wait_text(tab, "#tests", "line 8")
    wait_text(tab, "#state", "1 test fails")


def test_names_are_completed_with_the_labels_of_the_cluster_and_words_are_explained(playground, visit):
    tab = visit(playground.url).tab
    write(tab, 'policy "p"\nfilter a { require node.labels["karp')

    tab.keyboard.press("Control+Space")
    tab.wait_for_selector("#editor .cm-tooltip-autocomplete")
    assert "karpenter.sh/capacity-type" in tab.inner_text("#editor .cm-tooltip-autocomplete")
    tab.wait_for_timeout(200)  # the list takes no key in the first moments, so that nothing is chosen unseen
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => document.querySelector('#editor').shadowRoot.textContent.includes('karpenter.sh/capacity-type')")

    write(tab, 'policy "p"\nprefer big = node.free.cpu')
    tab.keyboard.press("Escape")  # the list that opens by itself
    tab.keyboard.press("Control+Shift+I")
    tab.wait_for_selector("#editor .said")
    assert "cpu" in tab.inner_text("#editor .said")
    tab.keyboard.press("Escape")
    assert tab.locator("#editor .said").count() == 0


def test_the_text_is_formatted(playground, visit):
    tab = visit(playground.url).tab
    write(tab, 'policy   "p"\nfilter a{require node.pod_count < 9 else "x"}')
    tab.keyboard.press("Shift+Alt+F")
    wait_text(tab, "#state", "formatted")
    assert 'require node.pod_count < 9 else "x"' in tab.inner_text(CONTENT)
    assert "filter a {" in tab.inner_text(CONTENT)


def test_the_link_restores_the_text_the_pod_and_the_answer(playground, visit):
    first = visit(playground.url)
    write(first.tab, TEAM + "# \U0001f6a2 ünïcödé\n")
    first.tab.fill("#pod", "shop/query")
    first.tab.keyboard.press("Enter")
    wait_text(first.tab, "#answer", "2 of 12 nodes feasible")
    first.tab.wait_for_function("() => location.hash.includes('shop%2Fquery')")

    second = visit(first.tab.url)

    wait_text(second.tab, "#answer", "2 of 12 nodes feasible")
    assert second.tab.input_value("#pod") == "shop/query"
    assert text_of(second.tab) == TEAM + "# \U0001f6a2 ünïcödé\n"
    assert all("policy=" not in url for url in second.requests[1:])
    assert {re.match(r"https?://[^/]+", url)[0] for url in first.requests + second.requests} == {
        playground.url.removesuffix("/ui/playground")
    }


@pytest.mark.parametrize("damage", ["policy=%%%", "policy=AAAA", "policy=3", "policy=" + "A" * 5000])
def test_a_damaged_link_is_reported(playground, visit, damage):
    found = visit(f"{playground.url}#{damage}")
    wait_text(found.tab, "#trouble", "The link is damaged")
    assert found.tab.inner_text("#tests-title") == "Tests · 4 passed"


def test_a_file_of_ones_own_and_a_written_pod(playground, visit, tmp_path):
    file = tmp_path / "own.json"
    file.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Node", **each} for each in nodes(7)]})
    )
    found = visit(playground.url)
    tab = found.tab

    tab.set_input_files("#file", file)
    wait_text(tab, "#cluster-title", "Cluster · 7 nodes")
    wait_text(tab, "#answer", "The cluster has no pods. Write one.")
    tab.locator("#own summary").click()
    wait_text(tab, "#answer", "Would be scheduled on")
    tab.wait_for_function("() => location.hash.includes('manifest=') && !location.hash.includes('upload')")

    file.write_text("no cluster")
    tab.set_input_files("#file", [])
    tab.set_input_files("#file", file)
    wait_text(tab, "#trouble", "own.json")
    found.expected = "400"  # the browser reports the answer 400 too


def test_openb_is_there(playground, visit):
    tab = visit(playground.url).tab
    tab.select_option("#choice", "openb:default")
    wait_text(tab, "#cluster-title", "Cluster · 1,523 nodes")
    wait_text(tab, "#answer", "of 1,523 nodes feasible")


def test_the_whole_page_is_used_by_keyboard(playground, visit):
    tab = visit(playground.url).tab
    tab.keyboard.press("Tab")
    assert held(tab) == "Skip the editor"
    tab_to(tab, "example")
    tab.keyboard.type("spread")
    wait_text(tab, "#tests", "the third replica goes to the other zone")
    tab_to(tab, "editor", limit=6)
    tab.keyboard.press("Control+End")
    tab.keyboard.type("let x = nod")
    tab.keyboard.press("Escape")
    wait_text(tab, "#state", "error")
    tab.keyboard.press("F8")
    for _ in "let x = nod":
        tab.keyboard.press("Control+End")
        tab.keyboard.press("Backspace")
    wait_text(tab, "#state", "no errors")
    tab_to(tab, "choice", limit=30)
    tab_to(tab, "pod")
    tab_to(tab, "map")
    tab.keyboard.press("Home")
    tab.keyboard.press("Enter")
    wait_text(tab, "#detail-title", "node-000")
    wait_text(tab, "#detail", "For shop/checkout-new")
    tab.keyboard.press("Escape")
    assert held(tab) == "map"


def test_nothing_that_is_written_is_run(playground, visit):
    found = visit(playground.url)

    write(found.tab, f'policy "p"\nfilter a {{ require node.lables["{EVIL}"] == "{EVIL}" else "{EVIL}" }}\n')
    wait_text(found.tab, "#state", "error")
    rule = f'filter a {{ reject node.pod_count < 100000 else "{EVIL}" }}'
    write(found.tab, f'policy "p"\n{rule}\ntest "{EVIL}" {{\n node a {{ }}\n pod b {{ }}\n place b\n expect b on a\n}}\n')
    wait_text(found.tab, "#tests", "<script>")
    wait_text(found.tab, "#answer", "<script>")

    assert found.tab.evaluate("window.pwned") is None
    assert found.tab.locator("img").count() == 1


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (390, "dark")])
def test_every_view_fits_and_has_no_serious_finding_of_axe(playground, visit, width, scheme):
    found = visit(playground.url, viewport={"width": width, "height": 844}, color_scheme=scheme)
    for view in ("start", "broken", "completion", "node"):
        if view == "broken":
            write(found.tab, BROKEN)
            wait_text(found.tab, "#problems", "P302")
        elif view == "completion":
            write(found.tab, TEAM + "filter b { require node.")
            found.tab.wait_for_selector("#editor .cm-tooltip-autocomplete")
        elif view == "node":
            found.tab.keyboard.press("Escape")
            write(found.tab, TEAM)
            wait_text(found.tab, "#state", "no errors")
            found.tab.locator("#tests summary").first.click()
            found.tab.locator("#answer button").first.click()
            wait_text(found.tab, "#detail", "Requested")
        serious = [each for each in Axe().run(found.tab).response["violations"] if each["impact"] in {"serious", "critical"}]
        assert [(view, each["id"], [node["html"] for node in each["nodes"]]) for each in serious] == []
        assert found.tab.evaluate("document.documentElement.scrollWidth") <= width
        assert found.tab.evaluate(CONTRAST) == []


def test_a_running_scheduler_tries_a_policy_on_its_own_cluster_and_goes_on_as_before(scheduler, visit):
    scheduler.put([pod("huge", cpu="900"), pod("old", cpu="2", node="node-00000")], POD)
    tab = visit(f"{scheduler.url}/playground").tab

    wait_text(tab, "#cluster-title", "Cluster · 60 nodes")
    assert not tab.is_visible("#upload")
    tab.fill("#pod", "shop/old")
    tab.keyboard.press("Enter")
    wait_text(tab, "#answer", "Bound to node-00000")
    write(tab, 'policy "zones"\nfilter a { require (node.labels["topology.kubernetes.io/zone"] ?? "") == "zone-3" else "another zone" }\n')
    wait_text(tab, "#answer", "zones/a")
    wait_text(tab, "#answer", "governed by pools, zones")

    scheduler.put(nodes(61)[60:], NODE)
    assert [policy.name for profile in scheduler.scheduler.profiles for policy in profile.chain.policies] == ["pools"]
    assert scheduler.ask(lambda page: page.scheduler.state.snapshot().placed("uid-old")[0]) is not None


def test_a_text_that_is_too_long_and_a_program_that_has_ended_are_reported(visit):
    with PlaygroundPage() as page:
        found = visit(page.url)
        write(found.tab, "# long\n" * 10_000)
        wait_text(found.tab, "#trouble", "at most 65,536 are checked here")
        write(found.tab, TEAM)
        wait_text(found.tab, "#state", "no errors")
        found.tab.wait_for_function("() => document.querySelector('#trouble').hidden")
    write(found.tab, BROKEN)
    wait_text(found.tab, "#trouble", "does not answer")
    found.tab.close()  # the page would ask again
    found.expected = "Failed to load resource"  # the connections that were refused
