"""The panel of policies with hundreds of them: the order, the heading, and what each says."""

import pytest
from msgspec import structs

from tests.browser.page import POD, pod
from tests.browser.steps import fits_without_findings, held, tab_to, wait_text
from wharfinger.framework.policy_status import MetricStatus, Mode
from wharfinger.web.ui import feed

SUSPENDED = "a decision took 34 ms and looked at 12,345 placed pods"


@pytest.fixture(autouse=True)
def updates_every_second(monkeypatch):
    """Also on a machine that has other work: there, building 400 policies makes an update seem to take long."""
    monkeypatch.setattr(feed, "MAX_TIME_SHARE", 1.0)


def several(policies, count):
    for number in range(count):
        scope = f'for pods where (pod.labels["team"] ?? "") == "{number}"'
        policies(
            f"team-{number:03d}", f'policy "team-{number:03d}"\n{scope}\nprefer ssd weight 2 = (node.labels["disktype"] ?? "") == "ssd"\n'
        )
    policies("team-900", 'policy "team-900"\nfilter pool { require node.lables["a"] == "b" else "no" }\n')


def in_trouble(scheduler):
    """Suspends team-150, and makes shadows of team-200 to 219, of which one fails."""

    def change(page):
        content = page.page.page_content
        shown = content._shown_policies

        def statuses():
            for status in shown.statuses():
                name = status.name or ""
                if name == "team-150":
                    yield structs.replace(status, suspended=SUSPENDED)
                else:
                    yield structs.replace(status, mode=Mode.SHADOW) if "team-200" <= name <= "team-219" else status

        reports = {
            f"team-{number}": {"policy": f"team-{number}", "agreed": 90, "disagreed": 10, "errors": 3 if number == 217 else 0, "unseen": 0}
            for number in range(200, 220)
        }
        content._shown_policies = structs.replace(shown, statuses=lambda: list(statuses()), shadows=lambda: reports)

    scheduler.ask(change)


def test_the_worst_of_many_policies_are_first_and_say_why(scheduler, policies, visit):
    several(policies, 400)
    found = visit(scheduler.url)
    tab = found.tab
    wait_text(tab, "#policies", "team-399")
    in_trouble(scheduler)
    wait_text(tab, "#policies-title", "Policies · 402: 1 refused, 1 suspended, 20 shadow")
    assert tab.locator("#policies tbody strong").all_inner_texts()[:4] == ["team-900", "team-150", "team-217", "pools"]
    wait_text(tab, "#policies", "10 of 100 decisions would have been different; 3 failed with an error")
    for state in ("refused", "suspended"):
        assert "bad" in tab.locator("#policies .badge", has_text=state).first.get_attribute("class").split()


@pytest.mark.parametrize("width", [1360, 390])
def test_a_pod_that_many_policies_govern_has_a_dialog_of_a_few_screens(scheduler, policies, visit, width):
    for number in range(60):
        least = 1000 + number
        policies(
            f"p-{number:02d}",
            f'policy "p-{number:02d}"\nfilter f {{ require node.free.cpu > {least}cpu else "less than {least} cores" }}\n',
        )
    scheduler.put([pod("web")], POD)
    tab = visit(scheduler.url, viewport={"width": width, "height": 844}).tab
    wait_text(tab, "#policies-title", "61")
    for query in ("?pod=shop/web", "?node=node-00000&for=shop/web"):
        tab.goto(f"{scheduler.url}{query}")
        wait_text(tab, "#detail", "What would have to change")
        assert "more than 1011cpu" in tab.inner_text("#detail")
        assert "more than 1012cpu" not in tab.inner_text("#detail")
        tab.locator("#detail .card summary").first.click()
        wait_text(tab, "#detail", "more than 1059cpu")
        fits_without_findings(tab, width)


def test_many_policies_can_be_used_by_keyboard_on_a_phone(scheduler, policies, visit):
    several(policies, 400)
    found = visit(scheduler.url, viewport={"width": 390, "height": 844})
    tab = found.tab
    wait_text(tab, "#policies", "team-399")
    in_trouble(scheduler)
    wait_text(tab, "#policies-title", "1 suspended")
    fits_without_findings(tab, 390)
    scheduler.put([pod("web", labels={"team": "150"}), pod("other")], POD)
    wait_text(tab, "#decisions", "shop/web")
    tab.focus("#find")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    assert held(tab).startswith("policy")
    tab.keyboard.type("team-150")
    tab.wait_for_function("() => !document.getElementById('decisions').innerText.includes('shop/other')")
    wait_text(tab, "#decisions", "shop/web")
    assert "policy=team-150" in tab.url
    tab_to(tab, "shop/web")


def test_a_metric_without_samples_is_told_in_the_header_until_it_has_some(scheduler, visit):
    why = "prometheus `main`: connection refused"
    lost = MetricStatus(policy="pools", name="load", asked=True, nodes=60, wanted=0.5, youngest=130.0, oldest=300.0, failure=why)
    lost = structs.replace(lost, suspended_since=1.0)
    tab = visit(scheduler.url).tab

    def report(status):
        shown = scheduler.ask(lambda page: page.page.page_content._shown_policies)
        scheduler.ask(lambda page: setattr(page.page.page_content, "_shown_policies", structs.replace(shown, metrics=lambda: [status])))

    report(lost)
    wait_text(tab, "#health", "pools/load: fresh on 0 of 60 nodes")
    wait_text(tab, "#health", "connection refused")
    counts, health = tab.locator("#counts").bounding_box(), tab.locator("#health").bounding_box()
    assert counts["y"] < health["y"]  # the numbers stay where they were, and the trouble has a line of its own
    report(structs.replace(lost, fresh=60, youngest=1.0, oldest=4.0, suspended_since=None, failure=""))
    tab.wait_for_function("() => [...document.querySelectorAll('#health li')].every((each) => each.className.includes('good'))")
    assert "connection refused" not in tab.inner_text("#health")


@pytest.mark.parametrize("width", [1360, 390])
def test_what_is_reported_about_a_policy_has_the_width_of_the_panel(scheduler, policies, visit, width):
    policies("wrong", 'policy "wrong"\nfilter a { requires node.free.cpu > 0cpu else "no" }\n')
    tab = visit(scheduler.url, viewport={"width": width, "height": 900}).tab
    wait_text(tab, "#policies", "unknown word `requires`")
    parts = "[document.querySelector('#policies .said'), document.querySelector('#policies table')].map((each) => each.clientWidth)"
    said, panel = tab.evaluate(parts)
    assert said > 0.85 * panel
