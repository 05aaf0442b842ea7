import pytest

from tests.unit.telemetry.scene import Scene


@pytest.fixture
def scene():
    made = Scene()
    yield made
    made.logs.close()
