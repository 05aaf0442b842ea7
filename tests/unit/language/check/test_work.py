"""Checking a policy takes work in proportion to its lets, not to what they would be if they were written out."""

from __future__ import annotations

import pytest

from tests.unit.language.policies import checked
from tests.work import calls
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import compile_policy
from wharfinger.language.files import MAX_IMPORTS
from wharfinger.language.load import TextSet
from wharfinger.language.parse.file_nodes import MAX_TESTS
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics.authority import Authority

DOUBLING = ["{0} and {0}", "{0} or {0}", "not ({0} or {0})", "({0} and pod.host_network) or {0}", "if {0} then {0} else {0}"]
PLACES = [
    "for pods where {0}",
    "filter f {{ require {0} }}",
    "filter f when {0} {{ require {0} }}",
    "for pods where {0}\nprefer p when {0} = {0}",
]


def chain(length, step, place):
    lets = [f"let a{n + 1} = {step.format(f'a{n}')}" for n in range(length)]
    use = place.format(f"a{length}")
    scope, _, rest = use.partition("\n")
    before, after = (scope, rest) if use.startswith("for") else ("", use)
    return "\n".join(['policy "p"', before, "let a0 = pod.priority > 3", *lets, after, "tie_break node.pod_count asc"])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("step", DOUBLING)
def test_a_chain_of_lets_twice_as_long_takes_twice_the_work(step, place):
    short, long = (calls(lambda n=n: checked(chain(n, step, place)), limit=2_000_000) for n in (14, 28))
    assert long <= 2.2 * short


def set_of(files):
    return TextSet(texts={name: text.encode() for name, text in files.items()})


def test_no_more_libraries_are_read_than_may_be_imported():
    library = "let large = node.pod_count in [" + "1, " * 12_000 + "1]\n"
    imports = "".join(f'import "l{i}.policy" as l{i}\n' for i in range(MAX_IMPORTS))
    files = {f"l{i}.policy": library for i in range(MAX_IMPORTS)}
    texts = set_of({"p.policy": f'{imports}policy "p"\nfilter f {{ require node.pod_count < 9 }}\n', **files})
    diagnostics = Diagnostics()
    checked = texts.check("p.policy", CATALOGUE, diagnostics)
    assert [d.code.name for d in diagnostics] == ["P007"]
    assert len(checked.needs) == 3  # its tests, and the libraries up to the one with which it is too much


def test_libraries_of_libraries_take_work_in_proportion_to_their_text():
    def work(depth):
        lets = "".join(f"let x{i} = {i}\n" for i in range(20))
        files = {f"l{i}.policy": f'import "l{i + 1}.policy" as l\n{lets}let last = l.last\n' for i in range(depth)}
        rule = 'import "l0.policy" as l\npolicy "p"\nfilter f { require node.pod_count < l.last }\n'
        texts = set_of({"p.policy": rule, **files, f"l{depth}.policy": "let last = 9\n"})
        diagnostics = Diagnostics()
        found = calls(lambda: texts.check("p.policy", CATALOGUE, diagnostics))
        assert not diagnostics.has_errors
        return found

    work(2)
    assert work(40) <= 2.2 * work(20)


def test_a_library_of_namespaces_is_parsed_once_for_all_texts_that_import_it():
    """Each text of a namespace is in a set of its own; a library may have findings, which each of them has."""
    library = "".join(f"let x{i} = 3 + {i}\n" for i in range(300)) + "fitler x\n"
    text = b'import "l.policy" as l\npolicy "p"\nfilter f { require node.pod_count < l.x1 }\n'
    found = []

    def check():
        diagnostics = Diagnostics()
        TextSet(texts={"p": text}, imports=False).check("p", CATALOGUE, diagnostics, Authority("shop", libraries=(("l.policy", library),)))
        found.append([(d.code, d.message, d.span) for d in diagnostics])

    first, second = calls(check), calls(check)
    assert second < first - 0.9 * calls(lambda: parse(Source(name="l.policy", text=library), Diagnostics()))
    assert found[0]
    assert found[0] == found[1]


def test_a_library_of_namespaces_is_checked_once_for_all_texts_that_import_it_in_the_same_way():
    def check(name="l"):
        texts = TextSet(
            texts={"p": LIBRARY_RULE.replace("as l", f"as {name}").replace("l.last", f"{name}.last").format(1).encode()}, imports=False
        )
        diagnostics = Diagnostics()
        found = texts.check("p", CATALOGUE, diagnostics, Authority("shop", libraries=(("l.policy", library(300)),)))
        return found.policy, [(d.code, d.message) for d in diagnostics]

    first, second = calls(check), calls(check)
    assert second < first / 20
    others = [check(f"l{i}") for i in range(20)]  # more than are kept
    assert {len(policy.lets) for policy, _ in [check(), *others]} == {2}


LIBRARY_RULE = 'import "l.policy" as l\npolicy "p{0}"\nfor pods where pod.priority > 3\nfilter f {{ require l.last < {0} }}\n'


def library(lets):
    """A library of `last`, of a let that it needs, and of others."""
    others = "".join(f"let x{i} = if node.pod_count > {i} then node.pod_count * {i} else 3 + {i}\n" for i in range(lets))
    return f"let first = node.pod_count + 1\n{others}let last = first * 2\n"


def importing(lets, policies):
    """The policies that import such a library, one after the other."""
    texts = set_of({"l.policy": library(lets), **{f"p{i}.policy": LIBRARY_RULE.format(i) for i in range(policies)}})

    def check():
        diagnostics = Diagnostics()
        found = [texts.check(f"p{i}.policy", CATALOGUE, diagnostics).policy for i in range(policies)]
        assert not diagnostics.has_errors
        return found

    return check


def test_each_policy_that_imports_a_library_takes_little_work_for_each_of_its_lets():
    def work(lets):
        return calls(importing(lets, 21)) - calls(importing(lets, 1))

    work(2)
    assert (work(200) - work(100)) / 20 < 5 * 100


def test_a_policy_is_compiled_with_the_lets_of_libraries_that_it_uses():
    (small,), (large,) = importing(1, 1)(), importing(100, 1)()
    assert [let.name for let in large.lets] == ["l.first", "l.last"]
    assert compile_policy(large).revision == compile_policy(small).revision
    assert calls(lambda: compile_policy(large)) == calls(lambda: compile_policy(small))


def test_functions_that_call_each_other_are_refused_before_they_take_long():
    bodies = "".join(f"let f{i}(x: count) = f{i - 1}(x + 1) + f{max(0, i - 2)}(x + 2)\n" for i in range(1, 20))
    text = f"let f0(x: count) = x + 1\n{bodies}score s = f19(node.pod_count) normalize minmax\n"
    found = []
    assert calls(lambda: found.extend(checked(text)[1])) < 1_300_000
    assert [each.code.name for each in found] == ["P010"]


BODIES = {
    "sum": "x + 1",
    "call": "min(x, 1, 7)",
    "branch": "if x > 1 then x * 2 else 1",
    "branches": "if x > 1 then (if x > 2 then x else 3) else (if x > 4 then x else 5)",
    "conditions": "if x > 1 and x > 2 and x > 3 and x > 4 then 1 else 2",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_many_calls_of_a_function_take_little_work_whatever_is_in_its_body(body):
    rules = "".join(f"score s{i} = {' + '.join(f'f(node.pod_count + {40 * i + j})' for j in range(40))} on missing 0\n" for i in range(53))
    text = f'policy "p"\nlet f(x: number) = {body}\n{rules}'
    assert calls(lambda: checked(text)) < 3_000_000


@pytest.mark.parametrize("rules", [1, 15])
def test_as_many_tests_as_a_file_may_have_are_allowed_if_they_are_small(rules):
    text = 'policy "p"\n' + "".join(f"filter f{n} {{ require node.pod_count < {n + 1} }}\n" for n in range(rules))
    text += "\n".join(f'test "t{n}" {{ node a node b node c like b pod p place p expect p on a, b, c }}' for n in range(MAX_TESTS))
    policy, found = checked(text)
    assert [str(d) for d in found] == []
    assert len(policy.tests) == MAX_TESTS


def test_tests_that_set_params_count_the_compilation_of_the_policy():
    rules = "".join(f"filter f{n} {{ require node.pod_count + {n} < k * {n} + 1 }}\n" for n in range(100))
    text = f'policy "p"\nparam k: count = 3 range 0..1000000\n{rules}'
    same, other = (
        "\n".join(f'test "t{n}" {{ param k = {k}{n if k else 5} node a pod p place p expect p on a }}' for n in range(60))
        for k in ("", "1")
    )
    assert checked(text + same)[0] is not None
    assert "P008" in {d.code.name for d in checked(text + other)[1]}
