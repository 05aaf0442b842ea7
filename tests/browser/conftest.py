"""A real Chromium without a window, driven by Playwright."""

import pytest
from playwright.sync_api import sync_playwright

from tests.browser.page import NODE, SchedulerPage, nodes
from tests.tools import needs

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def chromium():
    """The browser."""
    program = needs("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


class Visit:
    """One look at a page: the tab, and everything that went wrong in it."""

    def __init__(self, context, url):
        self.complaints = []
        self.expected = "nothing"  # a part of the complaints that belong to what is tested, which may come at any time
        self.requests = []
        self.tab = context.new_page()
        self.tab.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(url)
        self.tab.wait_for_selector("html[data-painted]", state="attached")

    def title_of(self, section):
        """The heading of a section."""
        return self.tab.inner_text(f"#{section}-title")


@pytest.fixture
def visit(chromium):
    """Opens a page; at the end nothing may have been complained of."""
    contexts, visits = [], []

    def look(url, **settings):
        contexts.append(chromium.new_context(**{"viewport": {"width": 1440, "height": 1000}, **settings}))
        visits.append(Visit(contexts[-1], url))
        return visits[-1]

    yield look
    for context in contexts:
        context.close()
    assert [said for found in visits for said in found.complaints if found.expected not in said] == []


@pytest.fixture
def policies(tmp_path):
    """A folder of policies: writes one."""
    folder = tmp_path / "policies"
    folder.mkdir()

    def write(name, text):
        (folder / f"{name}.policy").write_text(text)

    write.folder = folder
    return write


@pytest.fixture
def scheduler(policies):
    """A scheduler of sixty nodes with its page."""
    policies("pools", 'policy "pools"\nprefer ssd weight 2 = (node.labels["disktype"] ?? "") == "ssd"\n')
    with SchedulerPage(policies.folder) as page:
        page.put(nodes(60), NODE)
        yield page
    assert page.failures.errors == []
