"""`wharf prove`: its flags, exit codes and formats."""

import builtins
import json
import subprocess
import sys

import pytest

POLICY = """policy "p"
filter few { require node.pod_count < 5 else "full" }
"""


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "p.policy"
    found.write_text(POLICY)
    return found


def test_a_proof_has_exit_code_0(wharf, path):
    code, out, _ = wharf("prove", path, "--spares", "node.pod_count < 5")
    assert (code, out) == (0, "proved: the policy never rejects all nodes where node.pod_count < 5\n")


def test_a_counterexample_ends_with_1_and_fails_when_it_is_run(wharf, path):
    code, out, _ = wharf("prove", path, "--spares", "node.pod_count <= 5")
    assert code == 1
    assert f"# fails with {path}\n" in out
    test = out[out.index("test ") :]
    path.write_text(f"{POLICY}\n{test}")
    code, out, _ = wharf("test", path)
    assert code == 1
    assert "1 test: 0 passed, 1 failed" in out
    assert wharf("fmt", "--check", path)[0] in {0, 1}


def test_an_unmodelled_expression_has_exit_code_3_and_is_named(wharf, tmp_path):
    path = tmp_path / "c.policy"
    path.write_text(
        'policy "c"\nfilter f { require sqrt(node.pod_count) * sqrt(node.pod_count) <= node.pod_count + 1 else "odd" on missing pass }\n'
    )
    code, out, _ = wharf("prove", path, "--dead", "f")
    assert code == 3
    assert out.startswith("beyond what is modelled: filter f rejects no node\n  `sqrt(node.pod_count)")
    assert f"({path}:2:20)" in out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--dead", "few", "--keeps", "true"), "two statements"),
        (("--filter", "few"), "--filter needs --spares"),
        (("--by", "few"), "--by needs --implied"),
        (("--never", "true"), "--never needs --above"),
        (("--above", "true"), "--above needs --never"),
        (("--for", "true"), "--for needs --never"),
        (("--dead", "fwe"), "did you mean few?"),
        (("--spares", " "), "the condition is empty"),
        (("--spares", "node.pod_count <"), "--spares:1:"),
        (("--spares", "node.pod_count"), "--spares:1:1"),
        (("--keeps", "count(pods, on: node) > 1"), "about the pod alone"),
        (("--keeps", "count(pods) > 1"), "about the pod alone"),
    ],
)
def test_wrong_arguments_have_exit_code_2_and_one_sentence(wharf, path, flags, said):
    code, out, err = wharf("prove", path, *flags)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_a_counterexample_as_json_has_the_statement_the_verdict_and_the_test(wharf, path):
    code, out, _ = wharf("prove", path, "--dead", "few", "--format", "json")
    (found,) = json.loads(out)
    assert code == 1
    assert (found["statement"], found["verdict"], found["failsWith"]) == ("filter few rejects no node", "counterexample", str(path))
    assert found["counterexample"].startswith("test ")


def test_params_are_part_of_the_test(wharf, tmp_path):
    path = tmp_path / "p.policy"
    path.write_text('policy "p"\nparam most: count = 5\nfilter few { require node.pod_count < most else "full" }\n')
    code, out, _ = wharf("prove", path, "--spares", "node.pod_count < 5", "--param", "most=3")
    assert code == 1
    assert "  param most = 3\n" in out


def test_without_the_extra_it_says_what_to_install(wharf, path, monkeypatch):
    for name in [name for name in sys.modules if name == "z3" or name.startswith(("z3.", "wharfinger.prove"))]:
        monkeypatch.delitem(sys.modules, name)
    imported = builtins.__import__

    def without_z3(name, *rest):
        if name == "z3":
            raise ModuleNotFoundError("No module named 'z3'", name="z3")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_z3)
    code, _, err = wharf("prove", path, "--dead", "few")
    assert code == 2
    assert "pip install 'wharfinger[prove]'; with pipx: pipx runpip wharfinger install 'wharfinger[prove]'" in err


def test_check_does_not_import_z3(path):
    script = f"import sys; from wharfinger import cli; cli.main(['check', {str(path)!r}]); sys.exit('z3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0
