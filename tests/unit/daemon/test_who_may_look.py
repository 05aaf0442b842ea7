"""`wharf run` answers other machines and other host names about its health and metrics only, unless its settings allow more."""

import asyncio
import re

import httpx
import pytest

from tests.unit.kube.conftest import kubeconfig
from tests.unit.web.asking import FAR, NEAR
from wharfinger.daemon import serve
from wharfinger.daemon.settings import Settings

OPEN = {"/", "/metrics", "/evaluate/schema", *(f"/{name}{rest}" for name in ("healthz", "livez", "readyz") for rest in ("", "/{check}"))}
OWN_NAME, OTHER_NAME = "127.0.0.1:10261", "rebound.example"


class Unserved:
    """A server without a socket, which keeps its application."""

    url = ""

    def __init__(self, app, *_):
        self.app = app

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass


@pytest.fixture
def statuses(tmp_path, monkeypatch):
    """{path: status} of every route of a process whose API server does not answer; None for an answer that has no end."""

    def ask_all(client, host, **settings):
        served = []
        monkeypatch.setattr(serve, "Server", lambda *parts: served.append(Unserved(*parts)) or served[-1])
        connection = {"kubeconfig": kubeconfig(tmp_path, "http://127.0.0.1:1")}
        return asyncio.run(story(served, client, host, Settings.model_validate({"clientConnection": connection, **settings})))

    async def story(served, client, host, settings):
        stop = asyncio.Event()
        running = asyncio.create_task(serve.serve(settings, stop=stop))
        while not served:
            await asyncio.wait({running}, timeout=0.01)
            assert not running.done()
        found = {route.path: await status_of(served[0].app, route, client, host) for route in served[0].app.routes}
        stop.set()
        await running
        return found

    return ask_all


async def status_of(app, route, client, host):
    url = re.sub(r"\{[^}]*\}", "x", route.path) + ("?seconds=0.01" if route.path == "/debug/profile" else "")
    transport = httpx.ASGITransport(app, client=client, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as asking:
        try:
            async with asyncio.timeout(0.5):
                return (await asking.request("POST" if "POST" in route.methods else "GET", url)).status_code
        except TimeoutError:
            return None


@pytest.mark.parametrize(("client", "host"), [(FAR, OWN_NAME), (NEAR, OTHER_NAME)], ids=["machine", "host name"])
def test_others_are_refused_every_page_that_shows_the_cluster(statuses, client, host):
    found = statuses(client, host, playground=True)

    assert {"/policies", "/decisions", "/ui", "/evaluate", "/ui/playground", "/debug/cache"} < found.keys()
    assert {path for path, status in found.items() if status != 403} == OPEN


@pytest.mark.parametrize(
    ("setting", "of_setting"),
    [("remoteUi", lambda path: not path.startswith("/debug/")), ("remoteDebugging", lambda path: "debug" in path)],
)
def test_a_setting_opens_its_pages_and_no_others(statuses, setting, of_setting):
    found = statuses(FAR, OWN_NAME, playground=True, **{setting: True})

    assert {path for path, status in found.items() if status != 403} == OPEN | set(filter(of_setting, found))


def test_this_machine_is_answered(statuses):
    assert 403 not in statuses(NEAR, OWN_NAME, playground=True).values()
