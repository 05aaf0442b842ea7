"""`wharf check`: what it finds beyond the diagnostics of the language."""

from wharfinger import cli

POLICY = 'policy "p"\n\nbase kubernetes { NodeResourcesFit weight 1 with { strategy: "%s" } }\n'


def test_a_value_that_the_plugin_refuses_is_found_with_its_place(tmp_path, capsys):
    path = tmp_path / "p.policy"
    path.write_text(POLICY % "MostAlocated")
    assert cli.main(["check", str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(f"wharf: {path}:3:19: arguments of plugin NodeResourcesFit: ")
    assert "not 'MostAlocated'" in printed.err


def test_a_value_that_it_takes_is_not(tmp_path, capsys):
    path = tmp_path / "p.policy"
    path.write_text(POLICY % "MostAllocated")
    assert cli.main(["check", str(path)]) == 0
    assert capsys.readouterr().err == ""
