"""A scripted Prometheus."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from wharfinger.signals.query import PrometheusServer


def vector(values, label="instance", at=1_700_000_000.0):
    """The body of an answer with a series per node."""
    result = [{"metric": {label: node}, "value": [at, text]} for node, text in values.items()]
    return body("vector", result)


def body(kind, result):
    """The body of an answer of any type."""
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}})


class Scripted:
    """The requests (path, query, headers), and the responses: `answer(query) -> (status, body)`, or a callable given the handler."""

    def __init__(self, url):
        self.url = url
        self.asked = []
        self.answer = lambda _query: (200, vector({}))

    def server(self, **options):
        return PrometheusServer(**{"name": "default", "url": self.url, "timeout": 5.0, **options})


@contextmanager
def scripted(wrap=lambda socket: socket):
    """A scripted server that runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            parts = urlsplit(self.path)
            query = parse_qs(parts.query).get("query", [""])[0]
            endpoint.asked.append((parts.path, query, dict(self.headers)))
            said = endpoint.answer(query)
            if callable(said):
                said(self)
                return
            status, content = said
            raw = content.encode() if isinstance(content, str) else content
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            if 300 <= status < 400:
                self.send_header("Location", "http://elsewhere.invalid/")
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_arguments):
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_arguments):
            return

    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = wrap(server.socket)
        scheme = "http" if wrap.__name__ == "<lambda>" else "https"
        endpoint = Scripted(f"{scheme}://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield endpoint
        finally:
            server.shutdown()
