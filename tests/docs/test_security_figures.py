"""The limits that docs/operating/security.md names are those of the program."""

from pathlib import Path

import pytest

from wharfinger.framework.plugins import default_preemption
from wharfinger.operator import counted_work, policy_app, preview, preview_answer, preview_question
from wharfinger.policies import budget, namespace_turns, scans, store
from wharfinger.scheduler import cycle
from wharfinger.scheduler.queue import sub_queues, time_shares
from wharfinger.web.playground import workbench

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "operating" / "security.md").read_text("utf-8").split())


@pytest.mark.parametrize(
    "sentence",
    [
        f"`limits.policyBudget` ({1000 * budget.BudgetSettings().seconds:g} ms per decision)",
        f"look at placed pods with more than {scans.MAX_SCANNED:,} operations in one step",
        f"after the first {cycle.AT_ONCE_SECONDS:g} s of CPU time",
        f"{cycle.STEPS_IN_ORDER} steps at most if placed pods have more than {cycle.ALWAYS_IN_ORDER:,} templates",
        f"It tries {default_preemption.TRIALS_PER_STEP} times in one step",
        f"The first attempt for a pod is counted above {1000 * time_shares.USUAL_SECONDS:g} ms",
        f"together get {time_shares.SHARE:.0%}".replace("%", " %"),
        f"in backoff until its turn, for up to {time_shares.MAX_WAIT:g} s at a time",
        f"At most {sub_queues.SCOPES_PER_STEP} scopes are evaluated in one step",
        f"the {policy_app.MAX_APPS} oldest PolicyApps of a namespace",
        f"are built {namespace_turns.MAX_TEXTS} at a time",
        f"as long as the build follows, up to {store.MAX_PAUSE:g} s",
        f"`Waiting` after {preview.WAITING_NOTICE:g} s",
        f"A template has at most {preview_question.MAX_TEMPLATE_BYTES:,} bytes",
        f"({preview_question.MAX_BYTES_OF_LABELS // 2**20} MB of labels for all of them)",
        f"{preview_answer.MAX_DRAIN_STEPS:,} for `drain`",
        f"after {counted_work.MAX_OPERATIONS:,} counted operations",
        f"A policy has at most {workbench.MAX_TEXT_LENGTH:,} characters",
    ],
)
def test_a_limit_is_as_the_page_says(sentence):
    assert sentence in PAGE
