"""`wharf check`: what it finds beyond the diagnostics of the language."""

import json

from wharfinger import cli

POLICY = 'policy "p"\n\nbase kubernetes { NodeResourcesFit weight 1 with { strategy: "%s" } }\n'


def test_a_value_that_the_plugin_refuses_is_found_with_its_place(tmp_path, capsys):
    path = tmp_path / "p.policy"
    path.write_text(POLICY % "MostAlocated")
    assert cli.main(["check", str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(f"wharf: {path}:3:19: arguments of plugin NodeResourcesFit: ")
    assert "not 'MostAlocated'" in printed.err


def test_a_value_that_the_plugin_accepts_causes_no_finding(tmp_path, capsys):
    path = tmp_path / "p.policy"
    path.write_text(POLICY % "MostAllocated")
    assert cli.main(["check", str(path)]) == 0
    assert capsys.readouterr().err == ""


COSTLY = 'policy "p"\n\nfilter f {\n  require count(pods where starts_with(it.name, pod.name), on: node) < 3\n}\n'


def test_a_warning_about_cost_counts_as_a_finding(tmp_path, capsys):
    path = tmp_path / "p.policy"
    path.write_text(COSTLY)
    assert cli.main(["check", str(path)]) == 1
    assert "about 10,000 pods × 8 operations" in capsys.readouterr().out


def test_the_json_has_the_costs_of_policies(tmp_path, capsys):
    path = tmp_path / "p.policy"
    path.write_text(COSTLY)
    assert cli.main(["check", "--cost", "--format", "json", str(path)]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [diagnostic["code"] for diagnostic in answer["diagnostics"]] == ["L501"]
    (costly,) = answer["cost"]
    scan = {"line": 4, "column": 17, "lookup": "scan", "operations": 8}
    (rule,) = costly["rules"]
    assert (rule["rule"], rule["selections"], rule["perPlacedPod"], rule["decidedFor"]) == ("filter f", [scan], 8, "pod")
    assert costly["together"] == {name: value for name, value in rule.items() if name not in {"rule", "line"}}
