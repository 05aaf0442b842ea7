"""The comparison with recorded decisions of kube-scheduler: its cases, its report, and the differences that it finds."""

import json
from pathlib import Path

import pytest

from . import case as cases
from .__main__ import main
from .answer import answer
from .compare import differences

VECTORS = sorted((Path(__file__).parent / "vectors").glob("*.jsonl.gz"))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.name.partition(".")[0])
def test_every_case_agrees_in_everything(path):
    wrong = {vector.id: found for vector in cases.read(path) if (found := differences(vector.answer, answer(vector.case)))}
    assert not wrong


def test_there_are_thirteen_families_of_cases():
    found = {path.name.partition(".")[0]: sum(1 for _ in cases.read(path)) for path in VECTORS}
    assert found.pop("dra") == 300
    assert found.pop("declared-features") == 100
    assert list(found.values()) == [200] * 11


def test_every_kind_of_difference_is_found():
    expected = {"filters": {"Fit": {"n1": ["a", "b"]}}, "totals": {"n1": 7}, "message": "no"}
    found = {"filters": {"Fit": {"n1": ["a"], "n2": ["a"]}}, "totals": {"n1": 7.5}}
    assert differences(expected, found) == [
        "filters.Fit.n1: expected ['a', 'b'], found ['a']",
        "filters.Fit.n2: expected nothing, found ['a']",
        "message: expected 'no', found nothing",
        "totals.n1: expected 7, found 7.5",
    ]


def test_the_report_ends_with_the_counts_and_success(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tests.parity", str(VECTORS[0])])
    assert main() == 0
    assert capsys.readouterr().out == "affinity: 200 cases, 200 agree\n200 cases, 200 agree\n"


def test_a_wrong_answer_is_shown_and_fails(tmp_path, monkeypatch, capsys):
    line = next(cases.read(VECTORS[0]))
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_bytes(_line(line.case, {**line.answer, "feasible": ["elsewhere"]}))
    monkeypatch.setattr("sys.argv", ["tests.parity", "--show", str(wrong)])
    assert main() == 1
    shown = capsys.readouterr().out
    assert "feasible: expected ['elsewhere'], found" in shown
    assert shown.endswith("1 cases, 0 agree\n")


def test_no_cases_is_no_success(tmp_path, monkeypatch, capsys):
    nothing = tmp_path / "nothing.jsonl"
    nothing.write_text("\n")
    monkeypatch.setattr("sys.argv", ["tests.parity", str(nothing)])
    assert main() == 1
    assert capsys.readouterr().out == "0 cases, 0 agree\n"


def test_an_unknown_part_of_a_vector_is_an_error():
    with pytest.raises(ValueError, match="somethingNew"):
        cases.cluster({"id": "x-1", "nodes": [], "somethingNew": [1]})


def _line(case, answered):
    return json.dumps({"case": case, "answer": answered}).encode()
