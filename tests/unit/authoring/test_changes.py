"""Signatures, inlay hints, code actions, lenses, and tests made from decisions."""

import itertools
import json

import pytest

from tests.work import calls
from wharfinger.authoring import actions, inline_texts
from wharfinger.authoring.completion import place
from wharfinger.authoring.document import Document, EditorTexts, NoFiles, findings
from wharfinger.authoring.inline_texts import InlayHints
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.tests_of_decisions import decision_test
from wharfinger.errors import UsageError
from wharfinger.language.files import shipped_policies
from wharfinger.language.semantics import typed
from wharfinger.simulate.cluster import load_cluster


@pytest.fixture(scope="module")
def openb():
    return KnownCluster("openb:default", load_cluster(["openb:default"]))


def at(text):
    offset = text.index("|")
    return Document("x.policy", text.replace("|", "", 1)), offset


@pytest.mark.parametrize(
    ("text", "active"),
    [
        ("let x = clamp(|)", "x: any number"),
        ("let x = clamp(node.pod_count, min(1, 2), |)", "high: any number"),
        ("let x = clamp((1 + |), 2)", "x: any number"),
        ("let x = count(pods, |", "on: node"),
        ("metric m: percent = prometheus('q', max_age: |)", "max_age: duration"),
        ('filter f { require true else "{ratio(1, |)}" }', "whole: any number"),
    ],
)
def test_signature_names_the_argument_being_written(text, active):
    found = place.signatures(*at(text))[-1]
    assert found.parameters[found.active] == active
    assert all(each in found.text for each in found.parameters)


@pytest.mark.parametrize("text", ["let x = |", "let x = ratio(1, 2) |", "filter f { | }"])
def test_no_signature_outside_of_a_call(text):
    assert not place.signatures(*at(text))


def test_inlay_hints_say_types_and_ranges():
    text = 'policy "x"\nparam keep: percent = 10% range 0%..50%\nlet free = node.free.cpu\nlet twice = 2 * keep\nscore s = 100 * keep\n'
    found = {text[: each.offset].rsplit(maxsplit=1)[-1]: each.text for each in InlayHints().of(Document("x.policy", text))}
    assert found == {"free": ": cpu", "twice": ": number, 0 to 1", "s": ": 0 to 50"}
    assert not InlayHints().of(Document("x.policy", text), 0, 20)


TWENTY = 'policy "x"\nparam keep: percent = 10% range 0%..50%\n' + "".join(
    f"let a{i} = {i} * keep\nscore s{i} = a{i} + ({i} * 2 + {i}) * 3 + a{i} normalize minmax\n" for i in range(20)
)


@pytest.mark.parametrize(
    ("before", "after"), [("score s7 = a7 +", "score s7 = 9 +"), ("let a3 = 3", "let a3 = 4"), ('"x"\n', '"x"\nfilter f { require }\n')]
)
def test_inlay_hints_after_a_change_are_inferred_for_what_depends_on_it_only(before, after):
    """After a change of one of twenty declarations, less than a quarter of the work of all; and the answer is that of the whole text."""
    hints, fresh = InlayHints(), InlayHints()
    hints.of(Document("x.policy", TWENTY))
    changed, again = (Document("x.policy", TWENTY.replace(before, after)) for _ in range(2))
    assert changed.words
    assert again.words
    assert calls(lambda: hints.of(changed)) * 4 < calls(lambda: fresh.of(again))
    assert hints.of(changed) == InlayHints().of(changed)


def test_inlay_hints_of_what_an_import_brings_in_follow_its_text():
    texts = {"l.policy": "let size = 3\n", "x.policy": 'import "l.policy" as l\npolicy "x"\nlet twice = 2 * l.size\n'}
    hints = InlayHints()

    def shown():
        return [each.text for each in hints.of(Document("x.policy", texts["x.policy"], texts=EditorTexts(texts, NoFiles())))]

    assert shown() == [": count, always 6"]
    texts["l.policy"] = "let size = 4\n"
    assert shown() == [": count, always 8"]


@pytest.mark.parametrize(
    ("wrong", "titles"),
    [
        ("score s = node.pod_cuont", ["Replace `pod_cuont` by `pod_count`"]),
        ("score s = clamp(node.free.memory / 1, 0, 100)", []),
        ('filter f { require node.labels["a"] == "b" }', ['by `node.labels["a"] ?? ""`', "`on missing pass`", "`on missing reject`"]),
        ("filter f { require node.free.memory > 3 }", ["by `3Gi`", "by `3Mi`"]),
        ("filter f { require node.free.cpu = 3cpu }", ["Replace `=` by `==`"]),
        ("score s = node.pod_count", ["clamp(node.pod_count, 0, 100)"]),
        ("score s = node.pod_count > 3", ["by `prefer s = node.pod_count > 3`"]),
        ('score s = number(node.labels["a"]) ?? 1\n  on missing neutral', []),
        ('score s = clamp(number(node.labels["a"]), 0, 100)', ["`on missing neutral`", "`on missing skip`"]),
        ('preemption { never_evict when it.labels["a"] == "b" }', ["`on missing keep`", "`on missing evict`"]),
        ("filter f { requir node.unschedulable }", ["by `require`"]),
    ],
)
def test_each_fix_removes_its_finding(wrong, titles):
    document = Document("x.policy", f'policy "x"\n{wrong}\n')
    found = actions.actions(document, 0, len(document.text))
    for title in titles:
        assert any(title in each.title for each in found), [each.title for each in found]
    for each in found:
        after = findings(document.with_text(actions.applied(document.text, each.edits)))
        assert (each.fixes.code, each.fixes.start) not in [(left.code, left.start) for left in after]


def test_a_selected_expression_gets_a_name():
    text = '# Says why.\nfilter f {\n  require node.free.cpu >= 2 * 1cpu else "full"\n}\n'
    start = text.index("node.free.cpu")
    document = Document("x.policy", f'policy "x"\n\n{text}')
    shift = len('policy "x"\n\n')
    action = actions.actions(document, shift + start, shift + start + len("node.free.cpu"))[-1]
    after = actions.applied(document.text, action.edits)
    assert after == f'policy "x"\n\nlet extracted = node.free.cpu\n\n{text.replace("node.free.cpu", "extracted")}'
    assert not findings(document.with_text(after))
    assert not actions.actions(document, shift + start, shift + start + 3)


def test_expressions_that_read_the_placed_pod_are_not_extracted():
    text = 'policy "x"\nscore s = clamp(count(pods where it.namespace == "a", on: node), 0, 100)\n'
    start = text.index('it.namespace == "a"')
    assert not actions.actions(Document("x.policy", text), start, start + len('it.namespace == "a"'))


def test_expressions_that_read_a_parameter_are_not_extracted():
    text = 'policy "x"\nlet twice(x: memory) = x * 2\nscore s = twice(node.free.memory) normalize minmax\n'
    start = text.index("x * 2")
    assert not actions.actions(Document("x.policy", text), start, start + len("x * 2"))


def test_an_expression_of_the_head_is_named_behind_it():
    text = 'policy "x"\n\nfor pods where pod.namespace == "a"\n\nscore s = most_allocated()\n'
    start = text.index("pod.namespace")
    document = Document("x.policy", text)
    (action,) = actions.actions(document, start, start + len("pod.namespace"))
    after = document.with_text(actions.applied(text, action.edits))
    assert 'for pods where extracted == "a"\n\nlet extracted = pod.namespace\n' in after.text
    assert not findings(after)


def test_lenses_say_how_many_nodes_pass(openb):
    text = 'policy "x"\nfilter gpu { require has(node.free["nvidia.com/gpu"]) else "none" }\n'
    text += 'filter room { require node.free.cpu >= pod.requests.cpu else "full" }\n'
    text += 'test "t" {\n  node a\n  pod p\n  place p\n  expect p on a\n}\n'
    document = Document("x.policy", text)
    found = inline_texts.lenses(document, openb)
    assert [(each.rule, each.test) for each in found] == [("gpu", None), ("room", None), (None, "t")]
    passing = inline_texts.PassingNodeCounts(document.checked.policy, openb)
    assert passing.text("gpu") == "passes 1,213 of 1,523 nodes of openb:default"
    assert passing.text("room").endswith("of 1,523 nodes of openb:default for openb/openb-pod-0000")
    result = inline_texts.test_result(document, found[-1].start)
    assert inline_texts.result_text(result).startswith("failed: t: ")


def test_lets_that_double_are_looked_through_once(openb, monkeypatch):
    lets = "".join(f"let a{number} = a{number - 1} + a{number - 1}\n" for number in range(1, 25))
    document = Document("x.policy", f'policy "x"\nlet a0 = node.pod_count\n{lets}filter f {{ require a24 < 3 else "no" }}\n')
    passing = inline_texts.PassingNodeCounts(document.checked.policy, openb)
    assert passing.text("f")
    looked_at, parts = itertools.count(1), typed.parts

    def counted(expr):
        assert next(looked_at) < 1000
        return parts(expr)

    monkeypatch.setattr(typed, "parts", counted)
    assert not passing.text("f").endswith(passing._pod.key)


def test_lenses_say_that_no_pod_is_governed(openb):
    document = Document("x.policy", 'policy "x"\nfor pods where pod.namespace == "no"\nfilter f { require node.pod_count < 3 }\n')
    assert inline_texts.PassingNodeCounts(document.checked.policy, openb).text("f") == "governs no pod of openb:default"


@pytest.mark.parametrize("name", ["gpu-bin-pack", "keep-headroom", "team-pools", "bin-pack"])
def test_a_test_made_from_a_decision_passes(name, openb):
    path = shipped_policies() / f"{name}.policy"
    document = Document(str(path), path.read_text("utf-8"))
    text = decision_test(document, openb)
    longer = document.with_text(f"{document.text}\n{text}")
    assert not findings(longer)
    title = longer.text.rindex('"openb/openb-pod-0000 of openb:default"')
    assert inline_texts.test_result(longer, title).passed


def test_a_test_made_from_a_decision_has_the_texts_and_the_order_of_the_cluster(tmp_path):
    nodes = [
        {"kind": "Node", "metadata": {"name": name, "annotations": {"note": 'größer\n"neu"'}}, "status": {"allocatable": {"pods": "9"}}}
        for name in ("b", "a", "c")
    ]
    pod = {"kind": "Pod", "metadata": {"name": "web", "uid": "w"}, "spec": {"containers": [{"name": "main"}]}}
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [{"apiVersion": "v1", **each} for each in (*nodes, pod)]}))
    cluster = KnownCluster("here", load_cluster([tmp_path / "cluster.json"]))
    text = 'policy "x"\nfilter f { reject node.annotations["note"] == "größer\\n\\"neu\\"" on missing pass else "no" }\n'
    lines = [line.strip() for line in decision_test(Document("x.policy", text), cluster).splitlines()]
    assert lines[1] == "node b { pods: 9, annotations: { note: 'größer\\n\"neu\"' } }"
    expected = ["web pending", "b rejected by f", "a rejected by f", "c rejected by f"]
    assert [line.removeprefix("expect ") for line in lines if line.startswith("expect")] == expected


def test_no_test_is_made_where_no_pod_is_governed(openb):
    with pytest.raises(UsageError, match="openb:default has no pod that waits and that the policy governs"):
        decision_test(Document("x.policy", 'policy "x"\nfor pods where pod.namespace == "no"\nscore s = 1\n'), openb)
    with pytest.raises(UsageError, match="errors"):
        decision_test(Document("x.policy", 'policy "x"\nscore s = \n'), openb)


MENDED = [
    ('filter f {\n  require (node.pod_count + 1 < 10 else "full"\n}\n', "(", "Add `)`", "1 < 10) else"),
    ("filter f {\n  require node.pod_count < 10\n\nscore s = 1\n", "{", "Add `}`", "10\n}\n\nscore"),
    ('test "t" {\n  node a { cpu: 4cpu # four\n  pod p\n  place p\n  expect p on a\n}\n', "{ cpu", "Add `}`", "4cpu } # four"),
    ('group by pod.labels["job"] {\n  min_count 2\n  disruption all\n}\n', "all", "Replace `all` by `pod`", "disruption pod"),
    (
        "filter f { require count(devices where it.tainted) > 0 }\n",
        "count",
        "Replace `count(devices where it.tainted)`",
        "tainted, on: node)",
    ),
    ('metric l: percent = prometheus("q", node: "i", maxage: 2min)\n', "maxage", "Replace `maxage: 2min`", "max_age: 2min"),
]


@pytest.mark.parametrize(("text", "place", "title", "written"), MENDED, ids=[each[2] for each in MENDED])
def test_a_code_action_writes_the_text_that_the_help_names(text, place, title, written):
    text = f'policy "p"\n\n{text}'
    at = text.index(place)
    found = [each for each in actions.actions(Document("x.policy", text), at, at) if each.title.startswith(title)]
    assert len(found) == 1, found
    assert written in actions.applied(text, found[0].edits)


def test_changes_of_a_statement_cost_little_more_in_a_long_policy():
    """Only the statement of a changed place is read and checked, not the whole policy."""
    short, long = (work_of_changes(number) for number in (4, 100))
    assert long < 10 * short  # of a text that is 25 times as long


@pytest.mark.parametrize("typed", ["filter typed {", "filter typed { require node.free", "filter typed { require }", "filter"])
def test_formatting_a_statement_that_is_being_typed_costs_little_more_in_a_long_policy(typed):
    """That a text cannot be formatted yet is known from the statement that was changed."""
    short, long = (work_of_formatting(number, typed) for number in (4, 100))
    assert long < 10 * short  # of a text that is 25 times as long


PART = "let l_{0} = node.free.cpu\n\nfilter f_{0} {{\n  require l_{0} > {0}cpu and pod.priority > {0}\n}}\n\n"


def work_of_formatting(number, typed):
    """The calls for the layout after a statement was begun in the middle of that many declarations and rules."""
    parts = [PART.format(i) for i in range(number)]
    before = "".join(['policy "p"\n\n', *parts]).rstrip() + "\n"
    after = "".join(['policy "p"\n\n', *parts[: number // 2], f"{typed}\n\n", *parts[number // 2 :]])
    assert Document("x.policy", before).formatted == before
    found = Document("x.policy", after)
    work = calls(lambda: found.formatted)
    assert found.formatted is None
    return work


def work_of_changes(number):
    """The calls for one question after a letter was changed behind that many declarations and rules."""
    rest = "".join(map(PART.format, range(number)))
    before = f'policy "p"\n\n{rest}filter typed {{ require node.free.memor > 1Gi }}\n'
    after = before.replace("memor", "memroy")
    at = before.index("memor")
    assert actions.actions(Document("x.policy", before), at, at)
    return calls(lambda: actions.actions(Document("x.policy", after), at, at))


def test_fixes_are_looked_for_until_enough_letters_were_read(monkeypatch):
    """An editor may ask about the whole of a text in which everything is wrong."""
    monkeypatch.setattr(actions, "MAX_LETTERS_TRIED", 5_000)

    def work(n):
        text = 'policy "x"\n' + "\n".join(f"filter f{number} {{ require node.labels['l{number}'] }}" for number in range(n)) + "\n"
        document = Document("x.policy", text)
        findings(document)
        return calls(lambda: actions.actions(document, 0, len(text)), limit=100_000_000)

    assert work(400) <= 1.5 * work(200)
