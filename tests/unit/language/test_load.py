"""Files, folders, imports and tests of policies."""

from __future__ import annotations

import io
import os
import sys

import pytest

from wharfinger.builtins import CATALOGUE
from wharfinger.errors import UsageError
from wharfinger.language.files import MAX_IMPORTS
from wharfinger.language.load import load_policies, policy_files

RULE = "filter f { require node.pod_count < 9 }\n"
TEST = 'test "placed" {\n  node a {}\n  pod web {}\n  place web\n  expect web on a\n}\n'


def written(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def load(*paths):
    policies, diagnostics = load_policies(paths, CATALOGUE)
    return [p.name if p else None for p in policies], [f"{d.code.name} {d.message}" for d in diagnostics]


def test_a_folder_is_read_in_order_and_in_depth(tmp_path):
    written(tmp_path, {"b.policy": f'policy "b"\n{RULE}', "a/z.policy": f'policy "z"\n{RULE}', "c.txt": "not a policy"})
    assert load(tmp_path) == (["z", "b"], [])


def test_a_file_named_twice_is_read_once(tmp_path):
    written(tmp_path, {"a.policy": f'policy "a"\n{RULE}'})
    assert load(tmp_path, tmp_path / "a.policy") == (["a"], [])


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f'policy "in"\n{RULE}'.encode())))
    assert load("-") == (["in"], [])


def test_a_path_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError):
        load(tmp_path / "nothing.policy")


@pytest.mark.parametrize("named", [["p.policy"], ["p_test.policy"], ["p.policy", "p_test.policy"], ["."]])
def test_tests_in_the_test_file_of_a_policy_are_its_tests(tmp_path, named):
    written(tmp_path, {"p.policy": f'policy "p"\n{RULE}', "p_test.policy": TEST})
    policies, diagnostics = load_policies([tmp_path / name for name in named], CATALOGUE)
    assert [p.name for p in policies] == ["p"]
    assert [t.title.value for t in policies[0].tests] == ["placed"]
    assert not len(diagnostics)


def test_an_error_in_a_test_file_is_found_there(tmp_path):
    written(tmp_path, {"p.policy": f'policy "p"\n{RULE}', "p_test.policy": TEST.replace("on a", "on bb")})
    policies, diagnostics = load_policies([tmp_path / "p.policy"], CATALOGUE)
    assert policies == [None]
    assert [d.span.source.name for d in diagnostics] == [str(tmp_path / "p_test.policy")]


def test_imports_are_relative_to_the_importing_file(tmp_path):
    written(
        tmp_path,
        {
            "p.policy": 'import "lib/limits.policy" as limits\npolicy "p"\nfilter f { require node.pod_count < limits.most }\n',
            "lib/limits.policy": 'import "base.policy" as core\nlet most = core.few * 2\n',
            "lib/base.policy": "param few: count = 3\n",
        },
    )
    policies, diagnostics = load_policies([tmp_path / "p.policy"], CATALOGUE)
    assert not len(diagnostics)
    assert [p.name for p in policies[0].params] == ["limits.core.few"]
    assert [let.name for let in policies[0].lets] == ["limits.most"]
    assert len(policies[0].imports) == 2


def test_a_library_in_a_folder_is_checked_and_is_no_policy(tmp_path):
    written(tmp_path, {"lib.policy": "param few: count = 3\nlet wrong = few + 1cpu\n"})
    assert load(tmp_path) == ([None], ["P201 cannot add cpu to count"])


def test_a_library_imported_twice_is_shared(tmp_path):
    written(
        tmp_path,
        {
            "p.policy": 'import "a.policy" as a\nimport "b.policy" as b\npolicy "p"\nfilter f { require a.x + b.y > 1 }\n',
            "a.policy": 'import "c.policy" as c\nlet x = c.z\n',
            "b.policy": 'import "c.policy" as c\nlet y = c.z\n',
            "c.policy": "let z = node.pod_count\n",
        },
    )
    policies, diagnostics = load_policies([tmp_path / "p.policy"], CATALOGUE)
    assert not len(diagnostics)
    assert [let.name for let in policies[0].lets] == ["a.c.z", "a.x", "b.y"]


def test_imports_in_a_circle(tmp_path):
    written(
        tmp_path,
        {
            "p.policy": f'import "a.policy" as a\npolicy "p"\n{RULE.replace("9", "a.x")}',
            "a.policy": 'import "b.policy" as b\nlet x = b.y\n',
            "b.policy": 'import "a.policy" as a\nlet y = a.x\n',
        },
    )
    assert load(tmp_path / "p.policy") == ([None], ["P308 `a.policy` imports itself"])


def test_a_policy_cannot_be_imported(tmp_path):
    written(tmp_path, {"p.policy": f'import "q.policy" as q\npolicy "p"\n{RULE}', "q.policy": f'policy "q"\n{RULE}'})
    assert load(tmp_path / "p.policy") == ([None], ["P308 `q.policy` is a policy, not a library"])


def test_names_of_a_failed_import_are_not_complained_about(tmp_path):
    written(tmp_path, {"p.policy": 'import "gone.policy" as gone\npolicy "p"\nfilter f { require node.pod_count < gone.most }\n'})
    assert load(tmp_path / "p.policy") == ([None], ["P308 cannot import `gone.policy`: no such file or directory"])


def test_only_policies_can_be_imported_so_that_no_other_file_is_quoted(tmp_path):
    (tmp_path / "secret.txt").write_text("hunter2\n")
    (tmp_path / "p.policy").write_text('import "secret.txt" as s\n\npolicy "p"\n\nfilter f { require node.free.cpu > 0cpu }\n')
    _, found = load(tmp_path / "p.policy")
    assert found == ["P308 cannot import `secret.txt`: only .policy files can be imported"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "it is not a regular file"),
        (lambda path: path.symlink_to(os.devnull), "it is not a regular file"),
        (lambda path: path.mkdir(), "it is not a regular file"),
        (lambda path: path.symlink_to("nothing"), "no such file or directory"),
    ],
    ids=["pipe", "device", "folder", "broken link"],
)
def test_an_import_that_is_no_regular_file_is_an_error_and_not_waited_for(tmp_path, make, reason):
    make(tmp_path / "lib.policy")
    written(tmp_path, {"p.policy": f'import "lib.policy" as l\npolicy "p"\n{RULE.replace("9", "l.x")}'})
    assert load(tmp_path / "p.policy") == ([None], [f"P308 cannot import `lib.policy`: {reason}"])


def test_a_file_whose_name_has_no_room_for_that_of_its_tests(tmp_path):
    name = f"{'a' * 248}.policy"  # 255 bytes, the limit of Linux
    written(tmp_path, {name: f'policy "a"\n{RULE}'})
    assert load(tmp_path / name) == (["a"], [])


def test_a_mistake_in_an_import_is_found_there(tmp_path):
    written(
        tmp_path,
        {
            "p.policy": 'import "lib.policy" as lib\npolicy "p"\nfilter f { require node.pod_count < lib.most }\n',
            "lib.policy": "let most = nothing\n",
        },
    )
    policies, diagnostics = load_policies([tmp_path / "p.policy"], CATALOGUE)
    assert policies == [None]
    assert [(d.code.name, d.span.source.name) for d in diagnostics] == [("P301", str(tmp_path / "lib.policy"))]


def test_the_number_of_imports_is_bounded(tmp_path):
    files = {f"l{i}.policy": f'import "l{i + 1}.policy" as next\nlet x = next.x\n' for i in range(MAX_IMPORTS + 2)}
    written(tmp_path, {"p.policy": f'import "l0.policy" as l\npolicy "p"\n{RULE.replace("9", "l.x")}', **files})
    assert any("more than" in line for line in load(tmp_path / "p.policy")[1])


def test_one_bad_file_does_not_hide_the_others(tmp_path):
    written(tmp_path, {"a.policy": "", "b.policy": 'policy "b"\nfilter f { require nothing }', "c.policy": f'policy "c"\n{RULE}'})
    (tmp_path / "d.policy").write_bytes(b"\x00\xff")
    policies, found = load(tmp_path)
    assert policies == [None, None, "c", None]
    assert [line.split()[0] for line in found] == ["P001", "P301", "P002"]


@pytest.mark.parametrize("target", ["nothing.policy", "b.policy"], ids=["to nothing", "in a circle"])
def test_a_link_in_a_folder_that_leads_to_no_file_is_refused(tmp_path, target):
    (tmp_path / "a.policy").write_text('policy "a"\n')
    (tmp_path / ".#a.policy").symlink_to("me@host.1234")  # of Emacs, while the file is edited
    assert policy_files([tmp_path]) == [str(tmp_path / "a.policy")]
    (tmp_path / "b.policy").symlink_to(target)
    with pytest.raises(UsageError, match=f"cannot read {tmp_path}/b.policy: it is a link that leads to no file"):
        policy_files([tmp_path])


def test_a_folder_entry_that_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.policy")
    with pytest.raises(UsageError, match=f"cannot read {tmp_path}/a.policy: it is not a regular file"):
        policy_files([tmp_path])


def test_hidden_folders_are_left_alone(tmp_path):
    written(tmp_path, {"a.policy": f'policy "a"\n{RULE}', ".venv/a.policy": f'policy "a"\n{RULE}'})
    assert load(tmp_path) == (["a"], [])


def test_a_folder_without_policies_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"no \*\.policy files"):
        load(tmp_path)


def test_a_folder_that_cannot_be_looked_into_is_a_usage_error(tmp_path, monkeypatch):
    def closed(folder):
        raise PermissionError(13, "Permission denied", folder)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(UsageError, match="Permission denied"):
        load(tmp_path)
