"""Measures the answers of `wharf lsp` while a policy is typed: `python -m tests.bench.language_server`.

A client starts the server, opens a policy of 500 lines, and types a rule, a test and a declaration into it letter by letter: at the
beginning, in the middle and at the end. After each letter it sends the text and asks one question, so that each answer pays for what the
letter has changed; the questions take turns. Times are from the request to the answer, as the client sees them, and as the processor time
of the server (Linux), which other work on the machine changes little.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

LINES = 500
RULE = """filter typed {
  require node.free.cpu >= pod.requests.cpu and node.labels["zone"] != "a" else "only {node.free.cpu} free" on missing pass
}

let typed_share = ratio(node.free.memory, node.allocatable.memory) ?? 0%

test "typed" {
  node a { cpu: 4cpu, labels: { zone: "b" } }
  pod web { requests: { cpu: 1cpu } }
  place web
  expect web on a
}

"""
PART = """let free_{i} = ratio(node.free.cpu, node.allocatable.cpu) ?? 0%

filter room_{i} {{
  require node.free.cpu >= {i}cpu else "only {{node.free.cpu}} free"
  reject node.labels["tier"] == "t{i}" on missing pass
}}

score s_{i} weight {weight} = if pod.priority > {i} then clamp(100 * free_{i}, 0, 100) else 50

test "t{i}" {{
  node a {{ cpu: 4cpu, memory: 8Gi }}
  node b {{ cpu: 8cpu, memory: 8Gi, labels: {{ tier: "t{i}" }} }}
  pod web {{ requests: {{ cpu: 1cpu }} }}
  place web
  expect web on a
}}

"""
QUESTIONS = (
    "completion",
    "hover",
    "signatureHelp",
    "documentSymbol",
    "foldingRange",
    "selectionRange",
    "semanticTokens/full",
    "inlayHint",
    "codeAction",
    "codeLens",
    "documentHighlight",
    "definition",
    "references",
    "formatting",
)


def policy():
    """A policy of `LINES` lines, and offsets in it at which a statement may begin."""
    parts = ['policy "big"\n\nparam keep: percent = 10% range 0%..50%\n\n']
    while sum(part.count("\n") for part in parts) < LINES:
        parts.append(PART.format(i=len(parts), weight=len(parts)))
    return "".join(parts), (len(parts[0]), len("".join(parts[: len(parts) // 2])), len("".join(parts)))


class Client:
    """JSON-RPC over the pipes of a server."""

    def __init__(self, process):
        self.process = process
        self.number = 0

    def send(self, method, params, number=None):
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number})
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    async def read(self):
        length = 0
        while line := (await self.process.stdout.readline()).strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(await self.process.stdout.readexactly(length))

    def cpu(self):
        """The seconds for which the server has run on a processor, all of its threads together."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text("ascii").split()[0]) for each in tasks) / 1e9

    async def ask(self, method, params):
        """The answer, and the seconds it took: as the client sees them, and of the server's processor time."""
        self.number += 1
        start, used = time.perf_counter(), self.cpu()
        self.send(method, params, self.number)
        await self.process.stdin.drain()
        while (answer := await self.read()).get("id") != self.number:
            pass
        if "error" in answer:
            raise SystemExit(f"{method}: {answer['error']}")
        return answer["result"], (time.perf_counter() - start, self.cpu() - used)


def asked(question, uri, text, offset):
    """The parameters of a question at an offset."""
    before = text[:offset]
    here = {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1}
    document = {"textDocument": {"uri": uri}}
    if question in {"completion", "hover", "signatureHelp", "documentHighlight", "definition"}:
        return document | {"position": here}
    if question == "references":
        return document | {"position": here, "context": {"includeDeclaration": True}}
    if question == "selectionRange":
        return document | {"positions": [here]}
    if question == "codeAction":
        return document | {"range": {"start": here, "end": here}, "context": {"diagnostics": []}}
    if question == "inlayHint":
        return document | {"range": {"start": {"line": 0, "character": 0}, "end": {"line": LINES * 2, "character": 0}}}
    return document | ({"options": {"tabSize": 2, "insertSpaces": True}} if question == "formatting" else {})


async def typed(every):
    """The seconds of each answer by question."""
    server = [sys.executable, "-m", "wharfinger", "lsp"]
    process = await asyncio.create_subprocess_exec(*server, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24)
    client = Client(process)
    uri = "file:///nowhere/big.policy"
    await client.ask("initialize", {"capabilities": {}, "processId": None, "rootUri": None})
    client.send("initialized", {})
    text, places = policy()
    client.send("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "policy", "version": 0, "text": text}})
    for question in QUESTIONS:
        await client.ask(f"textDocument/{question}", asked(question, uri, text, 0))
    seconds = {question: [] for question in QUESTIONS}
    version = 0
    for place in places:
        for end in range(1, len(RULE) + 1):
            version += 1
            now = text[:place] + RULE[:end] + text[place:]
            change = {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": now}]}
            client.send("textDocument/didChange", change)
            if version % every == 0:
                question = QUESTIONS[version // every % len(QUESTIONS)]
                _, taken = await client.ask(f"textDocument/{question}", asked(question, uri, now, place + end))
                seconds[question].append(taken)
    await client.ask("shutdown", None)
    client.send("exit", None)
    await process.wait()
    return seconds


def summary(taken):
    """Median, P95 and maximum of some numbers."""
    ordered = sorted(taken)
    return f"{statistics.median(ordered):9.1f}{ordered[int(0.95 * (len(ordered) - 1))]:9.1f}{ordered[-1]:9.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="The number of letters between two questions.")
    seconds = asyncio.run(typed(parser.parse_args().every))
    print(f"{'milliseconds':24}{'answers':>9}{'median':>9}{'P95':>9}{'most':>9}   processor: {'median':>9}{'P95':>9}{'most':>9}")
    for question, taken in [*seconds.items(), ("all", [each for found in seconds.values() for each in found])]:
        columns = "   processor: ".join(summary([each[side] * 1000 for each in taken]) for side in (0, 1))
        print(f"{question:24}{len(taken):9}{columns}")


if __name__ == "__main__":
    main()
