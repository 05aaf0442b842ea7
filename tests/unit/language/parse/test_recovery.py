"""One mistake is one finding, and the text around it is kept."""

import pytest

from tests.unit.language.parsing import codes, parsed

BROKEN = [
    # text, codes, names kept, names lost
    ("let a =\nlet b = 1", ["P100"], ["b"], {"a"}),
    ("let a = (1 +\nlet b = 1", ["P100"], ["b"], {"a"}),
    ("let a = b c d e\nlet f = 1", ["P100"], ["f"], {"a"}),
    ("let a = = 3\nlet b = 1", ["P100"], ["a", "b"], set()),
    ("filter f { require a }\n}\nlet b = 1", ["P105"], ["f", "b"], set()),
    ("filter f { require a\nlet b = 1\nlet c = 2", ["P104"], ["f", "b", "c"], set()),
    ("filter f { require a +\n require b }\nlet b = 1", ["P100"], ["f", "b"], set()),
    ("filter f { let x = 1\n require b }\nlet b = 1", ["P116"], ["f", "b"], {"x"}),
    ("filter { require a }\nlet b = 1", ["P100"], ["nameless_1", "b"], set()),
    ("filter f require a }\nlet b = 1", ["P100"], ["f", "b"], set()),
    ("filter f when { require a }\nlet b = 1", ["P100"], ["b"], {"f"}),
    ("score s weight = 3\nlet b = 1", ["P100"], ["b"], {"s"}),
    ("score s weight: 2 = 3\nlet b = 1", ["P100"], ["s", "b"], set()),
    ("score s weight=2 = 3\nlet b = 1", ["P100"], ["s", "b"], set()),
    ("score s 5\nlet b = 1", ["P100"], ["s", "b"], set()),
    ("param p count = 3\nlet b = 1", ["P100"], ["p", "b"], set()),
    ("param p: count = 3 range 1-10", ["P123"], [], {"p"}),
    ("let a = f(1, 2\nlet b = 1", ["P104"], ["a", "b"], set()),
    ("let a = f(1, 2\nlet b =\nlet c = 1", ["P104", "P100"], ["a", "c"], {"b"}),
    ("let a = f(1 2)\nlet b = 1", ["P100"], ["a", "b"], set()),
    ("let a = [1, 2\nlet b = 1", ["P104"], ["a", "b"], set()),
    ("let a = b ? 1 : 2\nlet b = 1", ["P103"], ["b"], {"a"}),
    ("let a = b; let c = 1", ["P103"], ["a", "c"], set()),
    ("let a == b // why\nlet b = 1", ["P107", "P103"], ["a", "b"], set()),
    ('let a = "b\nlet c = 1', ["P101"], ["a", "c"], set()),
    ("LET a = 1\nLet b = 2\nlte c = 3", ["P113", "P113", "P113"], ["a", "b", "c"], set()),
    ("let a = b AND c OR d", ["P113", "P113"], ["a"], set()),
    ("let a = 1 amd 2", ["P113"], ["a"], set()),
    ("let filter = 1", ["P115"], ["filter"], set()),
    ("let a-b-c = 1\nlet d = a-b-c + a - b", ["P108"], ["a_b_c", "d"], set()),
    ("tie_break a\nlet b = 1", ["P100"], ["b"], set()),
    ("base kubernetes { A weight }\nlet b = 1", ["P100"], ["b"], set()),
    ("base kubernets { A weight 2 }\nlet b = 1", ["P113"], ["b"], set()),
    ("what is this\nlet b = 1", ["P113"], ["b"], set()),
    ('test "t" { node a { cpu: 1 }\nlet b = 1', ["P104"], ["b"], set()),
    ('test "t" {\n node a { cpu 1 }\n place\n expect a on\n}\nlet b = 1', ["P100", "P100"], ["b"], set()),
    ("test t { place a }\nlet b = 1", ["P100"], ["b"], set()),
    ("for pods pod.x == 1\nlet b = 1", ["P100"], ["b"], set()),
    ("for where pod.x == 1\nlet b = 1", ["P100"], ["b"], set()),
    ('filter f { require a < b < c else "m" on missing pass }\nlet b = 1', ["P106"], ["f", "b"], set()),
    ("filter f { require a else m }\nlet b = 1", ["P100"], ["f", "b"], set()),
    ('filter f { require a "m" }\nlet b = 1', ["P100"], ["f", "b"], set()),
]


@pytest.mark.parametrize(("text", "found", "kept", "lost"), BROKEN, ids=[case[0] for case in BROKEN])
def test_one_mistake_is_one_finding(text, found, kept, lost):
    file, diagnostics = parsed(f'policy "p"\n{text}\n')
    assert codes(diagnostics) == found
    assert [item.name for item in file.policy.items if hasattr(item, "name")] == kept
    assert file.lost == lost


def test_every_mistake_of_a_file_is_found_at_once():
    file, diagnostics = parsed('policy "p"\n' + "\n".join(f"let a{i} = {i} +" for i in range(20)) + "\nlet last = 1\n")
    assert len(diagnostics) == 20
    assert [item.name for item in file.policy.items] == ["last"]


def test_a_file_without_mistakes_has_lost_nothing():
    file, diagnostics = parsed('policy "p"\nlet a = 1\n')
    assert not list(diagnostics)
    assert file.lost == frozenset()
