"""`/policies`, `/policies/<name>/shadow` and `/policies/<name>/explain`: the state of each policy, and its effect.

`/policies` is JSON for programs and a page for people: a browser gets the page; with another `Accept`, or `?format=json`, the answer is
JSON. `?format=html` is the page. Texts of others on the page are escaped. An explanation is JSON, or text with `?format=text`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from msgspec import Struct, structs
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from wharfinger.errors import UnknownObject, WharfingerError
from wharfinger.framework.policy_status import Finding, MetricStatus, PolicyStatus, SourceStatus, worst_first
from wharfinger.model.objects.metadata import time_text
from wharfinger.web.requests import Answer, guarded, readable_json, requested_format, with_format

ExplainPolicy = Callable[[str], Awaitable[tuple[Mapping[str, Any], str]]]
"""The effect of the policy of a name on the cluster now: as plain values, and as text.

UnknownObject when no such policy is in force, another WharfingerError if it cannot be computed now.
"""


class Policies(Struct, frozen=True, kw_only=True):
    """The data: the policies, their sources, the report of each shadow policy as plain values by name, and explanations.

    Shown to this machine only, unless `public`: findings quote texts, and name labels and pods of all namespaces.
    """

    statuses: Callable[[], Sequence[PolicyStatus]]
    sources: Callable[[], Sequence[SourceStatus]]
    shadows: Callable[[], Mapping[str, Mapping[str, Any]]]
    metrics: Callable[[], Sequence[MetricStatus]] = tuple
    explain: ExplainPolicy | None = None
    public: bool = False


def routes(policies: Policies) -> list[Route]:
    """The routes."""

    async def listed(request: Request) -> Response:
        if _wants_page(request):
            return HTMLResponse(_page(policies), headers=_HEADERS)
        return readable_json({"sources": [_source(found) for found in policies.sources()], "policies": all_of(policies)})

    async def shadow(request: Request) -> Response:
        shadows, name = policies.shadows(), request.path_params["name"]
        if name not in shadows:
            others = f"there are {', '.join(sorted(shadows))}" if shadows else "there is none"
            return PlainTextResponse(f"there is no shadow policy {name}; {others}\n", 404)
        return readable_json(shadows[name])

    found: dict[str, Answer] = {
        "/policies": with_format(("json", "html"), listed),
        "/policies/{name:path}/shadow": with_format(("json",), shadow),
    }
    if policies.explain is not None:
        found["/policies/{name:path}/explain"] = with_format(("json", "text"), _explanation(policies.explain))
    return [Route(path, answer if policies.public else guarded(answer, "remoteUi")) for path, answer in found.items()]


def _explanation(explain: ExplainPolicy) -> Answer:
    async def explained(request: Request) -> Response:
        try:
            found, text = await explain(request.path_params["name"])
        except WharfingerError as error:
            return PlainTextResponse(f"{error}\n", 404 if isinstance(error, UnknownObject) else 503)
        return PlainTextResponse(text) if requested_format(request) == "text" else readable_json(found)

    return explained


def all_of(policies: Policies) -> list[dict[str, Any]]:
    """Every policy's status as plain values, with the state of its metrics; the worst first."""
    return [plain(status, metrics) for status, metrics in _listed(policies)]


def _listed(policies: Policies) -> Iterator[tuple[PolicyStatus, Sequence[MetricStatus]]]:
    """Every policy with its metrics, the worst first."""
    metrics = policies.metrics()
    by_policy: defaultdict[str | None, list[MetricStatus]] = defaultdict(list)
    for metric in metrics:
        by_policy[metric.policy].append(metric)
    failing = {name for name, report in policies.shadows().items() if report.get("errors")}
    for status in worst_first(policies.statuses(), metrics, failing):
        yield status, by_policy.get(status.name, [])


def plain(status: PolicyStatus, metrics: Sequence[MetricStatus] = ()) -> dict[str, Any]:
    """A policy's status as plain values, in the manner of Kubernetes' objects.

    `diagnostics` are about the text; `now` and `metrics` about its present state on the cluster.
    """
    return {
        "name": status.name,
        "state": status.state,
        "mode": status.mode.value,
        "authority": str(status.authority),
        "source": status.source,
        "key": status.key,
        "version": status.version,
        "revision": status.revision,
        "activeSince": _time(status.since),
        "lastAttempt": {"result": status.result.value, "time": _time(status.attempted), "generation": status.generation},
        "diagnostics": [_finding(finding) for finding in status.findings],
        "omittedDiagnostics": status.omitted,
        "now": [_finding(finding) for finding in status.now],
        "metrics": [_metric(metric) for metric in metrics] if status.is_in_force else [],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {name: value for name, value in structs.asdict(finding).items() if value}


def _metric(metric: MetricStatus) -> dict[str, Any]:
    return {
        "name": metric.name,
        "fresh": metric.fresh if metric.asked else None,
        "nodes": metric.nodes if metric.asked else None,
        "youngestSeconds": None if metric.youngest is None else round(metric.youngest, 1),
        "oldestSeconds": None if metric.oldest is None else round(metric.oldest, 1),
        "suspendedSince": _time(metric.suspended_since),
        "failure": metric.failure or None,
        "message": str(metric),
    }


def _source(status: SourceStatus) -> dict[str, Any]:
    return {"name": status.name, "lost": status.lost or None, "notes": list(status.notes), "texts": status.texts}


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else time_text(seconds)


def _wants_page(request: Request) -> bool:
    named = requested_format(request)
    return named == "html" or (named is None and "text/html" in request.headers.get("accept", ""))


_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Policies</title>
<style>
body { font: 15px/1.5 sans-serif; margin: 2em; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .3em 1em .3em 0; vertical-align: top; border-bottom: 1px solid #ddd; }
pre { margin: .3em 0; white-space: pre-wrap; }
.kept, .refused, .lost { color: #a00; font-weight: bold; }
</style>
<h1>Policies</h1>
"""


def _page(policies: Policies) -> str:
    return _HEAD + "\n".join([*_sources(policies.sources()), *_table(policies)]) + "\n</html>\n"


def _sources(sources: Sequence[SourceStatus]) -> Iterator[str]:
    for source in sources:
        if source.lost:
            yield f'<p class="lost">{escape(source.name)} cannot be read: {escape(source.lost)}</p>'
        yield from (f"<p>{escape(source.name)}: {escape(note)}</p>" for note in source.notes)


def _table(policies: Policies) -> Iterator[str]:
    yield "<table><tr><th>policy</th><th>whose</th><th>state</th><th>revision</th><th>since</th><th>from</th><th>what was found</th></tr>"
    for status, metrics in _listed(policies):
        name = escape(status.name or "?")
        shadow = f' <a href="policies/{quote(status.name or "", safe="")}/shadow">decisions</a>' if status.state == "shadow" else ""
        report = status.full_report + "".join(f"{metric}\n" for metric in metrics if status.is_in_force)
        report = f"<pre>{escape(report)}</pre>" if report else ""
        cells = (
            name,
            escape(str(status.authority)),
            f'<span class="{status.state}">{status.state}</span>{shadow}',
            escape((status.revision or "")[:12]),
            _time(status.since) or "",
            escape(f"{status.source}: {status.key}"),
            report,
        )
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</table>"
