import pytest
import structlog

from tests.unit.telemetry.scene import Scene


@pytest.fixture
def scene():
    made = Scene()
    yield made
    made.logs.close()
    structlog.reset_defaults()
