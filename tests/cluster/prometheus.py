"""A real Prometheus for tests, and an exporter whose values they set.

    with Exporter() as exporter, Prometheus(folder, exporter) as prometheus:
        exporter.load["node-0001"] = 0.9

The exporter serves its nodes in groups, each of them one target of Prometheus, so that a part of the targets can be down.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.cluster.programs import Program, free_ports
from tests.testbed import build

GROUPS = 10
SCRAPE = 1
"""Seconds between two scrapes of a target."""

_CONFIGURATION = """
global: {{scrape_interval: {scrape}s, scrape_timeout: {scrape}s, evaluation_interval: {scrape}s}}
scrape_configs:
- job_name: nodes
  honor_labels: true
  static_configs:
  - targets: [{targets}]
  relabel_configs:
  - {{source_labels: [__address__], regex: "group-(.*)", target_label: __metrics_path__, replacement: "/$1"}}
  - {{target_label: __address__, replacement: "127.0.0.1:{port}"}}
"""


class Exporter:
    """The measured value of each node. `down` has the groups whose targets do not answer.

    A node of two CPUs has been up for a day, and busy to the part in `busy` since then.
    """

    def __init__(self) -> None:
        self.load: dict[str, float] = {}
        self.busy: dict[str, float] = {}
        self.down: set[int] = set()
        self._booted = time.time() - 86_400
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                group = int(self.path.strip("/"))
                if group in exporter.down:
                    self.send_error(503)
                    return
                lines = (f'test_load{{instance="{name}:9100"}} {value}\n' for name, value in exporter.of_group(group))
                body = ("# TYPE test_load gauge\n" + "".join(lines) + "".join(exporter.cpu_seconds(group))).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: Any) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def set(self, names: Sequence[str], value: float) -> None:
        """Export that value for these nodes from the next scrape on."""
        self.load.update(dict.fromkeys(names, value))

    def of_group(self, group: int) -> list[tuple[str, float]]:
        """The nodes of a group with their values: every GROUPS-th, by name."""
        return [(name, self.load[name]) for name in sorted(self.load)[group::GROUPS]]

    def cpu_seconds(self, group: int) -> list[str]:
        """The lines of node_cpu_seconds_total of the nodes of a group, as the node exporter writes them."""
        up = time.time() - self._booted
        parts = [
            (name, mode, part)
            for name in sorted(self.busy)[group::GROUPS]
            for mode, part in (("idle", 1 - self.busy[name]), ("user", self.busy[name] * 0.7), ("system", self.busy[name] * 0.3))
        ]
        lines = [
            f'node_cpu_seconds_total{{instance="{name}:9100",cpu="{cpu}",mode="{mode}"}} {part * up}\n'
            for name, mode, part in parts
            for cpu in (0, 1)
        ]
        return ["# TYPE node_cpu_seconds_total counter\n", *lines] if lines else []


class Prometheus:
    """A server that scrapes an exporter. It can be killed and started again; it forgets nothing then."""

    def __init__(self, folder: Path, exporter: Exporter) -> None:
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        targets = ", ".join(f"group-{group}" for group in range(GROUPS))
        configuration = folder / "prometheus.yaml"
        configuration.write_text(_CONFIGURATION.format(scrape=SCRAPE, targets=targets, port=exporter.port))
        command = [
            build.program("prometheus"),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]
        self._program = Program("prometheus", command, folder, ready=self._is_ready)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Returns when it answers."""
        self._program.start()
        self._program.wait_ready(60)

    def kill(self) -> None:
        """Ends it at once."""
        self._program.kill()

    def values(self, query: str) -> dict[str, float]:
        """The values of its answer, by instance without the port."""
        url = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            result = json.load(answer)["data"]["result"]
        return {each["metric"]["instance"].partition(":")[0]: float(each["value"][1]) for each in result}

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False
