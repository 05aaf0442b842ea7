"""Takes the pictures of the live page and of the playground that the documentation shows: `python -m tests.browser.pictures`."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests import tools
from tests.browser.conftest import FLAGS
from tests.browser.page import NODE, POD, PlaygroundPage, SchedulerPage, nodes, pod

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SHIPPED = ("keep-headroom", "spread", "critical-off-spot")
N_NODES = 400
BROKEN = """policy "team-pools"
filter pool {
  require node.lables["team"] == pod.labels["team"] else "a node of another team" on missing reject
}
"""
APPS = ("web", "api", "cache", "worker", "batch")


def populate(page: SchedulerPage, chance: random.Random) -> None:
    """A cluster that is used unevenly, pods that were just placed, and a few that fit on no node."""
    page.put(nodes(N_NODES), NODE)
    running = [pod(f"{chance.choice(APPS)}-{index:04d}", **_size(chance), node=_node(chance)) for index in range(5 * N_NODES)]
    page.put(running, POD)
    page.put([pod(f"train-{index}", cpu="64", memory="96Gi") for index in range(14)], POD)
    page.put([pod(f"import-{index}", cpu="2", memory="200Gi") for index in range(3)], POD)
    for index in range(24):
        page.put([pod(f"{APPS[index % 3]}-new-{index:02d}", **_size(chance))], POD)
        time.sleep(0.05)


def _size(chance: random.Random) -> dict[str, str]:
    return {"cpu": f"{chance.choice((250, 500, 1000, 1500))}m", "memory": f"{chance.choice((1, 2, 4, 8))}Gi"}


def _node(chance: random.Random) -> str:
    return f"node-{int(N_NODES * chance.betavariate(1.2, 1.5)):05d}"


def opened(browser: Browser, url: str, scheme: Any) -> Page:
    """The page, as wide as a picture is to be, once everything is on it."""
    tab = browser.new_context(viewport={"width": 1360, "height": 980}, color_scheme=scheme).new_page()
    tab.goto(url)
    tab.wait_for_selector("html[data-painted]", state="attached")
    tab.wait_for_function("() => document.querySelector('#policies').innerText.includes('active')")
    time.sleep(1.5)
    return tab


def take(folder: Path) -> None:
    """Write the pictures."""
    os.chdir(tempfile.mkdtemp())  # so that the picture shows no temporary folder
    policies = Path("policies")
    policies.mkdir()
    for name in SHIPPED:
        shutil.copy(ROOT / "policies" / f"{name}.policy", policies)
    program = tools.found("chromium")
    with SchedulerPage(policies) as page, sync_playwright() as playwright:
        populate(page, random.Random(3))
        (policies / "team-pools.policy").write_text(BROKEN)
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        for scheme in ("light", "dark"):
            tab = opened(browser, page.url, scheme)
            tab.locator("#pending summary").first.click()
            tab.mouse.move(5, 5)
            time.sleep(1.2)
            tab.screenshot(path=folder / f"ui-{scheme}.png")
        _details(opened(browser, page.url, "light"), folder)
        browser.close()


def _details(tab: Page, folder: Path) -> None:
    name = tab.locator("#decisions button", has_text="shop/api-new").first.inner_text()
    tab.get_by_role("button", name=name).first.click()
    tab.wait_for_function("() => document.querySelector('#detail').innerText.includes('total')")
    tab.screenshot(path=folder / "ui-decision.png")
    tab.get_by_role("button", name="Colour the map by its scores").click()
    tab.wait_for_function("() => document.querySelector('#legend').innerText.includes('feasible')")
    time.sleep(1.2)
    tab.screenshot(path=folder / "ui-scores.png", clip={"x": 0, "y": 0, "width": 830, "height": 640})


def playground(folder: Path) -> None:
    """Write the pictures of the playground."""
    program = tools.found("chromium")
    with PlaygroundPage() as page, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        for scheme in ("light", "dark"):
            tab = browser.new_context(viewport={"width": 1360, "height": 980}, color_scheme=scheme).new_page()
            tab.goto(page.url)
            tab.wait_for_selector("html[data-painted]", state="attached")
            tab.select_option("#choice", "example:large")
            tab.wait_for_function("() => document.querySelector('#answer').innerText.includes('of 240 nodes feasible')")
            tab.screenshot(path=folder / f"playground-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    playground(PICTURES)
    take(PICTURES)
    sys.stdout.write(f"wrote {PICTURES}\n")
