"""Measures the live page: `python -m tests.browser.figures` prints the first paint, and the memory of a client.

The first paint is the browser's own: milliseconds from the start of the visit until the map is drawn. Memory is what Python has allocated
more, at most, while a page is open for some seconds, the browser's driver included.
"""

from __future__ import annotations

import tracemalloc

from playwright.sync_api import Browser, sync_playwright

from tests import tools
from tests.browser.conftest import FLAGS
from tests.browser.page import NODE, POD, SchedulerPage, nodes, pod

VISITS = 5
PER_NODE = 5
WAITING = 500
LOOKED_AT = 5_000  # milliseconds that the page is open


def painted(browser: Browser, url: str) -> float:
    """Milliseconds until a new visitor sees the cluster."""
    tab = browser.new_page(viewport={"width": 1440, "height": 1000})
    tab.goto(url)
    tab.wait_for_selector("html[data-painted]", state="attached")
    took: float = tab.evaluate("performance.getEntriesByName('painted')[0].startTime")
    tab.close()
    return took


def megabytes(browser: Browser, url: str) -> float:
    """The peak of memory allocated while a page is open, in MB."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tab = browser.new_page(viewport={"width": 1440, "height": 1000})
        tab.goto(url)
        tab.wait_for_timeout(LOOKED_AT)
        tab.close()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (most - before) / 2**20


def main() -> None:
    """Prints the figures."""
    program = tools.found("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        for count in (1_000, 5_000):
            with SchedulerPage() as page:
                page.put(nodes(count), NODE)
                page.put((pod(f"running-{i}", node=f"node-{i % count:05d}") for i in range(PER_NODE * count)), POD)
                page.put((pod(f"waiting-{i}", cpu="900") for i in range(WAITING)), POD)
                times = sorted(painted(browser, page.url) for _ in range(VISITS))
                print(f"{count:,} nodes: first paint {times[0]:.0f} to {times[-1]:.0f} ms, {megabytes(browser, page.url):.1f} MB")
        browser.close()


if __name__ == "__main__":
    main()
