"""A scheduler in memory whose events are counted and logged, with what was written."""

from contextlib import asynccontextmanager

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.observed import subscribed
from tests.unit.scheduler.running import running
from wharfinger.telemetry import logs
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.scheduling import SchedulingTelemetry

NOON = 1_700_000_000.25


class Scene:
    """Metrics and log lines of one run; the time of day is fixed."""

    def __init__(self, form="json", level="debug", monotonic=lambda: 0.0):
        self.written = []
        self.logs = logs.configure(form, level, write=self.written.append, now=lambda: NOON)
        self.metrics = Metrics(CollectorRegistry(), of_process=False)
        self.scheduling = SchedulingTelemetry(self.metrics, logs.log(), monotonic)
        self.subscribers = subscribed(self.scheduling.handlers)
        self.emit = self.subscribers.emit

    def value(self, name, /, **labels):
        """A sample; None if there is none."""
        return self.metrics.registry.get_sample_value(name, labels)

    def samples(self, name):
        """Every sample of that name by its labels' values."""
        text = generate_latest(self.metrics.registry).decode()
        found = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return {tuple(sorted(sample.labels.items())): sample.value for sample in found if sample.name == name}

    def text(self):
        """The logged text; closes the log."""
        self.scheduling.close()
        self.logs.close()
        return b"".join(self.written).decode()

    def lines(self, event=None):
        """The logged lines as JSON, those of one event if given."""
        found = [msgspec.json.decode(line) for line in self.text().splitlines()]
        return [line for line in found if event is None or line["event"] == event]


@asynccontextmanager
async def scheduling(*things, scene, **more):
    async with running(*things, subscribers=scene.subscribers, stopwatch=scene.scheduling.stopwatch, **more) as world:
        yield world
