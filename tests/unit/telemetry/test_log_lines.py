"""The documented log lines are those that are written."""

import re
from pathlib import Path

import pytest

from tests.log_lines import LINES
from tests.unit.scheduler.running import view
from wharfinger.groups.terms import GroupTerms
from wharfinger.scheduler.events import AttemptEnded, GroupAttemptEnded
from wharfinger.telemetry.scheduling import line_of, line_of_group

ENGINE = Path(__file__).parents[3] / "engine" / "wharfinger"
CALL = re.compile(r'\b_?(?:log|log\(\))\.(?:info|warning|error)\)?\(\s*"([^"]+)"')
STAGES = ("queue", "decide", "reserve", "permit", "pre_bind", "bind")


def declared(event):
    return next(line for line in LINES if line.event == event)


def test_every_line_of_the_process_is_described_and_no_other():
    written = {event for path in ENGINE.rglob("*.py") for event in CALL.findall(path.read_text(encoding="utf-8"))}
    assert written | {"log lines dropped"} == {line.event for line in LINES}


def test_each_is_described_once():
    assert len({line.event for line in LINES}) == len(LINES)


def test_the_fields_of_an_attempt_are_those_described():
    attempt = AttemptEnded(
        pod=view("one"),
        profile="wharfinger",
        result="error",
        attempts=1,
        first_seen=0,
        started=0,
        ended=1,
        node="a",
        message="no",
        plugins=("NodeName",),
        stages=dict.fromkeys(STAGES, 0.1),
        group="default/g",
    )
    assert line_of(attempt).keys() == declared("attempt").fields.keys()


def test_the_fields_of_the_attempt_of_a_group_are_those_described():
    attempt = GroupAttemptEnded(
        key="default/g",
        profile="wharfinger",
        terms=GroupTerms(min_count=2, source="PodGroup default/g"),
        result="scheduled",
        message="2 of 3 members have a place",
        started=0,
        ended=1,
        searched=0.5,
        nodes={"one": "a", "two": "a"},
        domains={"rack": "r1"},
        left=(view("three"),),
    )
    assert line_of_group(attempt).keys() == declared("group attempt").fields.keys()


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.event)
def test_descriptions_are_sentences(line):
    assert line.means.endswith(".")
    assert not any(text.endswith(".") for text in line.fields.values())
