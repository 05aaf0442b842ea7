"""The numbers of policies, and texts with other numbers: the rest of a text stays as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.simulate.clusters import policy
from wharfinger.api import load_policies
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.framework.chain import assemble
from wharfinger.what_if.tune import tunables

TEXT = """policy "web"  # a name

param keep:percent = 10% range 0%..50%   # how much stays free
param most: count=3 range 1..9
param core: cpu = 500m range 100m..2cpu
param slow: duration = 2min range 30s..1h
param room: memory = 1Gi range 0B..8Gi
param strict: bool = false
param free: memory = 1Gi
param names: set<string> = []

filter headroom when strict {
  require node.free.memory >= max(room, free) else "no room"
  require node.free.cpu >= core else "no cpu"
  require keep < 60% and most < 10 and slow < 2h and not (pod.name in names) else "never"
}

score a = 50
score b tier 2 = 50
score c weight   7 = 50   # kept
score d weight most = 50

base kubernetes {
  NodeResourcesFit weight 0
}

test "later" {
  node n { cpu: 4cpu, memory: 16Gi }
  pod p { requests: { cpu: 1cpu, memory: 1Gi } }
  place p
  expect p on n
}
"""


@pytest.fixture(scope="module")
def web():
    return policy(TEXT)


def found(web, **options):
    return tunables.found([web], assemble([web]), **options)


def test_params_with_a_range_and_weights_that_are_numbers_are_found(web):
    assert {
        tunable.own_name: (tunable.text(tunable.current), tunable.text(tunable.low), tunable.text(tunable.value(tunable.steps)))
        for tunable in found(web)
    } == {
        "keep": ("10%", "0%", "50%"),
        "most": ("3", "1", "9"),
        "core": ("500m", "100m", "2cpu"),
        "slow": ("2min", "30s", "1h"),
        "room": ("1Gi", "0B", "8Gi"),
        "strict": ("false", "false", "true"),
        "a": ("1", "0", "10"),
        "b": ("1", "0", "10"),
        "c": ("7", "0", "14"),
        "NodeResourcesFit": ("0", "0", "10"),
    }


def test_given_params_are_not_searched(web):
    given_params = policy(TEXT, keep="20%")
    assert {tunable.own_name for tunable in found(web)} - {tunable.own_name for tunable in found(given_params)} == {"keep"}


def test_kubernetes_weights_are_found_when_asked_for(web):
    more = {tunable.own_name for tunable in found(web, kubernetes=True)} - {tunable.own_name for tunable in found(web)}
    assert {"TaintToleration", "PodTopologySpread", "NodeAffinity"} <= more


def test_numbers_are_edited_in_place(web):
    all_tunables = found(web, kubernetes=True)
    values = {tunable.name: tunable.current for tunable in all_tunables}
    assert tunables.edited([web.policy.source], all_tunables, values) == {web.policy.source.name: TEXT}

    values |= {"web.keep": 0.125, "web.most": 4, "web.strict": 1.0, "web.a": 3, "web.b": 4, "web.c": 8, "web.NodeResourcesFit": 5}
    values |= {"web.TaintToleration": 9}
    [text] = tunables.edited([web.policy.source], all_tunables, values).values()
    expected = TEXT
    for old, new in [
        ("percent = 10%", "percent = 12.5%"),
        ("count=3", "count=4"),
        ("bool = false", "bool = true"),
        ("score a =", "score a weight 3 ="),
        ("score b tier 2 =", "score b tier 2 weight 4 ="),
        ("weight   7", "weight   8"),
        ("NodeResourcesFit weight 0\n", "NodeResourcesFit weight 5\n  TaintToleration weight 9\n"),
    ]:
        expected = expected.replace(old, new)
    assert text == expected

    diff = tunables.change([web.policy.source], {web.policy.source.name: text})
    assert "-score c weight   7 = 50   # kept\n" in diff
    assert "+score c weight   8 = 50   # kept\n" in diff


def test_a_block_is_made_where_there_is_none():
    plain = policy('policy "plain"\n\nscore a = 50\n')
    every = found(plain, kubernetes=True)
    values = {tunable.name: tunable.current for tunable in every} | {"plain.NodeResourcesFit": 4, "plain.TaintToleration": 2}
    [text] = tunables.edited([plain.policy.source], every, values).values()
    assert "score a = 50\n\nbase kubernetes {\n" in text
    assert {(entry.plugin, entry.weight) for entry in policy(text).base} == {("NodeResourcesFit", 4.0), ("TaintToleration", 2.0)}


@given(st.data())
def test_every_edit_is_read_back_as_what_was_meant(data):
    web = policy(TEXT)
    every = found(web, kubernetes=True)
    values = {tunable.name: tunable.value(data.draw(st.integers(0, tunable.steps), label=tunable.name)) for tunable in every}
    [text] = tunables.edited([web.policy.source], every, values).values()
    again = policy(text)
    read = {name: float(value) for name, value in again.params.items() if f"web.{name}" in values}
    read |= {score.name: score.weight for score in again.scores if score.name != "d"}
    read |= {entry.plugin: entry.weight for entry in again.base}
    unwritten = {
        tunable.own_name: tunable.current for tunable in every if tunable.own_name not in read
    }  # weights of plugins that stay as they are
    assert {tunable.own_name: values[tunable.name] for tunable in every} == pytest.approx({**unwritten, **read})


@pytest.mark.parametrize(
    ("text", "low", "high"), [("keep=5%..6%", "5%", "6%"), ("web.c=2..4", "2", "4"), ("core=1cpu..2cpu", "1cpu", "2cpu"), ("c", "0", "14")]
)
def test_a_search_may_be_narrowed(web, text, low, high):
    [tunable] = tunables.chosen(found(web), [text], [web])
    assert (tunable.text(tunable.low), tunable.text(tunable.value(tunable.steps))) == (low, high)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("kep", UnknownObject, r"there is no such number to search; did you mean keep\?"),
        ("zzz", UnknownObject, "there are web.keep, "),
        ("keep=1cpu..2cpu", UsageError, "param keep of policy web is percent; '1cpu' is not"),
        ("keep=0%..60%", UsageError, "outside of its range 0%..50%"),
        ("keep=20%..10%", UsageError, "the range is empty"),
        ("keep=20%", UsageError, r"expected LOW\.\.HIGH, as 0%\.\.50%"),
        ("strict=false..true", UsageError, r"expected LOW\.\.HIGH"),
        ("c=-1..4", UsageError, "'-1' is not a weight"),
    ],
)
def test_numbers_that_cannot_be_searched_give_the_reason(web, text, error, says):
    with pytest.raises(error, match=says):
        tunables.chosen(found(web), [text], [web])


LIBRARY = """param keep: percent = 10% range 0%..50%
let roomy = node.free.memory >= node.allocatable.memory * keep
"""


def test_params_of_libraries_are_numbers_of_the_first_policy_that_imports_them(tmp_path):
    (tmp_path / "lib.policy").write_text(LIBRARY)
    for name in ("one", "two"):
        (tmp_path / f"{name}.policy").write_text(
            f'policy "{name}"\nimport "lib.policy" as shared\nfilter room {{ require shared.roomy else "no room" }}\n'
        )
    policies = load_policies(str(tmp_path / "one.policy"), str(tmp_path / "two.policy"))
    [keep] = tunables.found(policies, assemble(policies))
    assert (keep.policy, keep.text(keep.current)) == ("one", "10%")
    library = policies[0].policy.imports[0]
    texts = tunables.edited([library], [keep], {keep.name: 0.25})
    assert texts == {library.name: LIBRARY.replace("10%", "25%")}
    [narrow] = tunables.chosen([keep], [f"{keep.own_name}=5%..20%"], policies)
    assert (narrow.text(narrow.low), narrow.text(narrow.value(narrow.steps))) == ("5%", "20%")
    [overridden] = load_policies(str(tmp_path / "one.policy"), params={keep.own_name: "20%"})
    assert tunables.found([overridden], assemble([overridden])) == ()
