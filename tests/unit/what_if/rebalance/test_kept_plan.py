"""Plans in files: read as they were printed, and refused with a reason where they are none or not for this cluster."""

import json

import pytest
import yaml

from tests.unit.compiler.texts import compiled
from tests.unit.framework.kube import node, state
from tests.unit.what_if.test_drain import owned
from wharfinger.errors import UsageError
from wharfinger.framework.chain import assemble
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.what_if.rebalance.kept_plan import plan_value, read_plan
from wharfinger.what_if.rebalance.movable import Limits
from wharfinger.what_if.rebalance.plan import Goal, PlanOptions, rebalance

NODES = [node("a"), node("b")]
WISHES = PlanOptions(
    goals=(Goal.FREE_NODES,), limits=Limits(namespaces=frozenset({"default"}), min_age_seconds=60.0, scheduler="wharfinger")
)


@pytest.fixture
def made():
    plan_options = PlanOptions(goals=WISHES.goals)
    return rebalance(assemble(), state(NODES, [owned("one"), owned("two", on="b")]), plan_options)


@pytest.fixture
def value(made):
    return {
        "goals": [{"goal": "free-nodes", "before": 0}],
        "revisions": {"policies": made.chain.policy_revision, "chain": made.chain.revision},
        **plan_value(WISHES, made.moves),
        "summary": {},
    }


@pytest.mark.parametrize("written", [json.dumps, yaml.safe_dump])
def test_a_plan_is_read_as_it_was_made(made, value, written):
    kept = read_plan(written(value).encode(), "plan")
    assert (kept.plan_options, tuple(kept.moves)) == (WISHES, made.moves)
    assert kept.moves
    assert kept.staleness(assemble(), state(NODES)) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{", "not YAML"),
        (b"[" * 100_000, "nested more than 200 levels deep"),  # the parser in C would end the process
        (b"goals: []\ngoals: []", 'the key "goals" is there twice'),
        (b"", "not a plan of wharf rebalance --format json or yaml: it is empty"),
        (b"moves: []", "missing required field `goals`"),
        (b"\xff\xfe\x00", "neither JSON nor YAML"),
    ],
)
def test_a_text_that_is_no_plan_is_refused(text, words):
    with pytest.raises(UsageError, match=f"plan.json: .*{words}"):
        read_plan(text, "plan.json")


def test_a_wrong_field_is_named(value):
    value["moves"][0]["cordon"] = 3
    with pytest.raises(UsageError, match=r"moves\[0\].cordon"):
        read_plan(json.dumps(value).encode(), "plan.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda value: value["moves"].append(value["moves"][0]), r"moves\[\d\]: pod default/\w+ moves twice"),
        (lambda value: value["moves"][0].update(gain=".nan"), r"moves\[0\].gain"),
        (lambda value: value["moves"][0].update(gain=float("inf")), r"moves\[0\].gain: expected a number, not inf"),
        (lambda value: value.update(goals=[]), "length >= 1 - at `\\$.goals`"),
        (lambda value: value.update(goals=[{"goal": "more"}]), "Invalid enum value 'more'"),
        (lambda value: value.update(unit={"cpu": 0}), "at `\\$.unit"),
        (lambda value: value["limits"].update(minAgeSeconds=-1), "minAgeSeconds"),
    ],
)
def test_a_plan_that_was_edited_wrongly_is_refused(value, change, words):
    change(value)
    with pytest.raises(UsageError, match=f"plan.yaml: .*{words}"):
        read_plan(yaml.safe_dump(value).encode(), "plan.yaml")


def test_a_plan_for_other_policies_settings_or_nodes_is_stale(value):
    kept = read_plan(json.dumps(value).encode(), "plan")
    other = assemble((compiled('policy "p"\nscore s weight 1 = node.free.cpu normalize minmax'),))
    assert "policies of revision" in kept.staleness(other, state(NODES))
    assert "settings of revision" in kept.staleness(assemble(config=ChainConfig(disabled={"ImageLocality"})), state(NODES))
    assert kept.staleness(assemble(), state(NODES[:1])) == "b: no such node any more"
