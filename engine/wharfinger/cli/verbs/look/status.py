"""`wharf status`: the policies of a running scheduler and their state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

import typer

from wharfinger.cli import running_process, streams
from wharfinger.cli.running_process import POLICIES, Finding, Policies, Policy, needs_attention, shaped
from wharfinger.language.report import wording

COLUMNS = ("POLICY", "WHOSE", "STATE", "REVISION", "SINCE", "FROM")


def wharf_status(
    url: running_process.Url = running_process.LOCAL_ADDRESS,
    output: Annotated[bool, typer.Option("--json", help="Print what the scheduler answers instead of a table.")] = False,
) -> int:
    """Show the policies of a running scheduler: which versions hold, and what is wrong with the last texts. 1 if anything is wrong."""
    whole = running_process.plain(url, POLICIES)
    unready = running_process.failing(url)
    answer = shaped(whole, Policies, f"{url}{POLICIES}")
    told = [f"not ready: {reason}" for reason in unready]
    if output:
        streams.out(json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
        for line in told:
            streams.complain(line)
    else:
        streams.out("".join(f"{line}\n" for line in (*told, *lines(answer))))
    return int(
        bool(unready)
        or any(source["lost"] for source in answer["sources"])
        or any(needs_attention(policy) for policy in answer["policies"])
    )


def lines(answer: Policies) -> Iterator[str]:
    """A table of the policies, then what was found about them and their sources."""
    rows = [_row(policy) for policy in answer["policies"]]
    yield from wording.columns([COLUMNS, *rows]).splitlines() if rows else ("no policies",)
    for source in answer["sources"]:
        if source["lost"]:
            yield f"{source['name']} cannot be read: {source['lost']}"
        yield from (f"{source['name']}: {note}" for note in source["notes"])
    for policy in answer["policies"]:
        yield from (_finding(finding) for finding in policy["diagnostics"])
        if policy["omittedDiagnostics"]:
            yield f"… and {policy['omittedDiagnostics']} more about {policy['key']}"
        yield from (f"{_finding(finding)} (at present)" for finding in policy["now"])
        yield from (f"{policy['name']}: {metric['said']}" for metric in policy["metrics"])


def _row(policy: Policy) -> tuple[str, ...]:
    name = policy["name"] or "?"
    revision = (policy["revision"] or "-")[:12]
    return name, policy["authority"], policy["state"], revision, policy["activeSince"] or "-", f"{policy['source']}: {policy['key']}"


def _finding(finding: Finding) -> str:
    position = f":{finding['line']}:{finding.get('column', 1)}" if "line" in finding else ""
    return f"{finding.get('file', '')}{position}: {finding.get('severity', '')} {finding.get('code', '')}: {finding.get('message', '')}"
