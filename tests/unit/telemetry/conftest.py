"""A scheduler whose events are counted and logged, for the tests of this folder."""

import pytest

from tests.unit.telemetry.scene import Scene


@pytest.fixture
def scene():
    made = Scene()
    yield made
    made.logs.close()
