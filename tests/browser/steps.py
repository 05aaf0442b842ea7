"""What a test does at the live page: it waits for text, moves the keyboard, and checks that everything fits."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe

from tests.browser.page import pod

SHOWN = "([s, t]) => { const found = document.querySelector(s); return found?.checkVisibility() && found.innerText.includes(t) }"
SHOWS = """([s, texts]) => JSON.stringify([...new Set([...document.querySelectorAll(s)].map((found) => found.textContent))].sort())
  === JSON.stringify(texts)"""

WORKLOAD = """apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      schedulerName: wharfinger
      containers: [{name: main, image: "app:1", resources: {requests: {cpu: CPU, memory: 1Gi}}}]
"""


def controlled(name, node):
    made = pod(name, node=node)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def wait_text(tab, selector, text):
    """Waits until people can read a text there: a dialog that is closed has its text still."""
    tab.wait_for_function(SHOWN, arg=[selector, text])


def held(tab):
    """A short description of the element with the focus."""
    return tab.evaluate(
        "(({ id, innerText, tagName }) => id || innerText?.split(String.fromCharCode(10))[0] || tagName)(document.activeElement)"
    )


def tab_to(tab, name, limit=60):
    """Presses the tabulator until the keyboard is where `name` is."""
    for _ in range(limit):
        tab.keyboard.press("Tab")
        if held(tab) == name:
            return
    raise AssertionError(f"the tabulator does not lead to {name}")


def fits_without_findings(tab, width):
    """Asserts that nothing is wider than the screen, and that axe finds nothing serious."""
    serious = [each for each in Axe().run(tab).response["violations"] if each["impact"] in {"serious", "critical"}]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    wide = tab.evaluate("(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.getElementById('detail'))")
    assert wide <= 0
