"""The documentation as a site in a real browser."""

import functools
import http.server
import threading

import pytest

from tests.docs.test_site import build


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, *_):
        """Writes nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    assert build(folder).returncode == 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_search_finds_a_page_of_errors_and_nothing_is_fetched_from_elsewhere(chromium, address):
    tab = chromium.new_page(viewport={"width": 390, "height": 800})
    requests = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(f"{address}/index.html")
    tab.locator("label.md-header__button[for='__search']").click()
    tab.locator("input[name='query']").fill("L201")
    tab.locator(".md-search-result__link", has_text="L201").first.click()
    tab.wait_for_url("**/errors/L201.html*")
    assert [url for url in requests if not url.startswith(address)] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.close()
