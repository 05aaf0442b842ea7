"""What it takes to make a candidate of a text."""

import pytest

from wharfinger.framework.policy_status import PolicyText
from wharfinger.language.load import TextSet
from wharfinger.policies import policy_tests
from wharfinger.policies.candidate import build

TESTED = """policy "tested"
param pool: string = "a"
filter pool { require node.labels["pool"] == pool else "not it" on missing reject }
test "goes to a" { node n { labels: {"pool": "a"} } pod p {} place p expect p on n }
test "and again" { node n { labels: {"pool": "a"} } pod p {} place p expect p on n }
test "goes to b" { param pool = "b" node n { labels: {"pool": "b"} } pod p {} place p expect p on n }
"""


@pytest.fixture
def compiled(monkeypatch):
    """The params that policies were compiled with, as they are."""
    real, seen = policy_tests.compile_policy, []

    def counting(policy, given):
        seen.append(given)
        return real(policy, given)

    monkeypatch.setattr(policy_tests, "compile_policy", counting)
    return seen


@pytest.mark.parametrize(
    ("params", "expected"),
    [({}, [{}, {"pool": "b"}]), ({"pool": "b"}, [{}, {"pool": "b"}]), ({"pool": "c"}, [{}, {"pool": "b"}, {"pool": "c"}])],
)
def test_a_policy_is_compiled_once_for_all_tests_and_uses_that_set_the_same_params(compiled, params, expected):
    text = PolicyText(name="t.policy", content=TESTED.encode(), params=params)

    outcome = build(text, TextSet(texts={text.name: text.content}), {}, None)

    assert outcome.report == ""
    assert outcome.version.policy.params == {"pool": params.get("pool", "a")}
    assert compiled == expected
