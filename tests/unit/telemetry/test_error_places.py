"""Errors are labelled by component; names of objects are no labels."""

import re
from pathlib import Path

import pytest

from wharfinger.telemetry.scheduling import OTHER, place_of

ENGINE = Path(__file__).parents[3] / "engine" / "wharfinger"


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ("pod default/one", "pod"),
        ("status of pod default/one", "status"),
        ("preemption of pod default/one", "preemption"),
        ("binding cycle", "binding"),
        ("Ledger after binding default/one", "post bind"),
        ("watch of PersistentVolumeClaim", "watch"),
        ("object of kind Pod", "object"),
        ("Pod default/one", "object"),
        ("Node n1", "object"),
        ("lease", "lease"),
        ("event", "event"),
        ("stopping", "stopping"),
        ("policies", "policies"),
        ("reconciling policyapps default/web", "reconciling"),
        ("live page", "live page"),
        ("something nobody thought of", OTHER),
        ("", OTHER),
    ],
)
def test_error_places_are_of_a_fixed_set(where, place):
    assert place_of(where) == place


def test_every_reported_error_names_a_known_place():
    said = re.compile(r'\bFailed\(\s*f?"([^"]+)"')
    found = {where for path in ENGINE.rglob("*.py") for where in said.findall(path.read_text(encoding="utf-8"))}
    assert len(found) > 5
    assert {where for where in found if place_of(re.sub(r"^\{[^}]*\}", "Thing", where)) == OTHER} == set()
