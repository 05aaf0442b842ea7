"""Measures hostile texts at every door: `python -m tests.bench.doors [--door NAME…] [WORD…]`, for the texts whose name has a word in it.

A door is a command, a part of the scheduler or an answer of the language server that reads the text of a policy. Each text goes through the
doors one after the other in a process of its own, which gives the seconds of the processor for each, and the memory of all. Some doors are
for policies that are accepted, with their seconds from there on. What takes long or raises is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import resource
import signal
import time
import traceback
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from tests.bench import hostile
from tests.hostile.texts import makers
from wharfinger.authoring import actions, highlighting, hover, inline_texts, navigation
from wharfinger.authoring.completion import candidates, place
from wharfinger.authoring.document import Document, findings
from wharfinger.authoring.protocol.positions import Positions
from wharfinger.builtins import CATALOGUE
from wharfinger.cli.commands.author import check as check_command
from wharfinger.compiler import cost
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.explain.explained_pod import explained
from wharfinger.explain.explained_policy import explained_policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.policy_status import PolicyText
from wharfinger.language.format import format_source
from wharfinger.language.load import TextSet
from wharfinger.language.report import render
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics.authority import Authority, TenantRights
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.operator import policy_admission
from wharfinger.operator.preview_answer import WhatIf, answer_preview
from wharfinger.policies import candidate, policy_tests
from wharfinger.policies.ledger import Entry
from wharfinger.prove import statements
from wharfinger.simulate import workloads
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.timing import DecisionStopwatch, StatisticsOfRules
from wharfinger.web import policies as policies_page
from wharfinger.web.playground import trial
from wharfinger.what_if import diff
from wharfinger.what_if.supposed_changes import NodesLike, SupposedChanges, added, evaluated
from wharfinger.what_if.tune import tunables

NODES, PLACED, WAITING = 100, 500, 20
PARTS = 4  # an editor asks at the beginning, at the end and in between
MAX_CPU = 20  # seconds of the processor until a door is given up
MAX_STEP = 0.05  # seconds of a step on the scheduler's loop
MAX_MEGABYTES = 300  # with the 100 of everything that is imported
SLOW = 0.6
SMALL = 'policy "hostile"\nfilter f { require node.pod_count < 3 }\n'
NOW = 1_700_000_000.0
RIGHTS = TenantRights()


def compiled(text: str, name: str = "hostile.policy") -> CompiledPolicy | None:
    """The policy of a text, as commands compile it; None if it is refused."""
    policy = TextSet(texts={name: text.encode()}).check(name, CATALOGUE, Diagnostics()).policy
    with contextlib.suppress(WharfingerError):
        return None if policy is None else cost.affordable(compile_policy(policy))
    return None


def cluster() -> tuple[ClusterState, list[PodView]]:
    """A small cluster, and its pods that wait."""
    state = ClusterState()
    for manifest in workloads.node_manifests(NODES):
        state.add_node(decode.convert(manifest, objects.Node))
    for manifest in workloads.running_manifests(PLACED, NODES):
        state.add_pod(decode.convert(manifest, objects.Pod))
    return state, [PodView(decode.convert(each, objects.Pod)) for each in workloads.pod_manifests(WAITING, WAITING)]


def check_cost(text: str) -> None:
    """`wharf check --cost`."""
    diagnostics = Diagnostics()
    policy = TextSet(texts={"hostile.policy": text.encode()}).check("hostile.policy", CATALOGUE, diagnostics).policy
    costs = check_command._costs([] if policy is None else [policy], diagnostics)
    render.render(diagnostics)
    check_command.cost_tables(costs)


def formatted(text: str) -> None:
    """`wharf fmt`."""
    diagnostics = Diagnostics()
    format_source(Source(name="hostile.policy", text=text), diagnostics)
    render.render(diagnostics)


def tested(text: str) -> None:
    """`wharf test`."""
    diagnostics = Diagnostics()
    policy = TextSet(texts={"hostile.policy": text.encode()}).check("hostile.policy", CATALOGUE, diagnostics).policy
    render.render(diagnostics)
    if policy is not None:
        policy_tests.run([policy])


def review(text: str) -> None:
    """The webhook, about a SchedulingPolicy."""
    policy_admission.checked({"kind": "SchedulingPolicy", "metadata": {"name": "x"}, "spec": {"source": text}}, RIGHTS)


def inline(text: str) -> None:
    """A policy of a namespace in the policy store: its tests, its cost, and its trial on a sample of the cluster."""
    state, waiting = CLUSTER
    authority = Authority("default", RIGHTS.policies)
    source = PolicyText(name="hostile.policy", content=text.encode(), authority=authority)
    texts_of_source = TextSet(texts={"hostile.policy": text.encode()})
    outcome = candidate.build(source, texts_of_source, {}, candidate.sample_of(state.snapshot(), waiting))
    entry = Entry(source="app", key="hostile.policy", place=(0, ""), text=source)
    entry.take_outcome(outcome, 0.0)
    json.dumps(policies_page.plain(entry.status))


def compiling(text: str) -> None:
    """`wharf test --coverage` and the playground: the tests, and what they looked at."""
    policy = TextSet(texts={"hostile.policy": text.encode()}).check("hostile.policy", CATALOGUE, Diagnostics()).policy
    if policy is not None:
        json.dumps(trial.tested(policy, Positions(text)))


def survey(policy: CompiledPolicy, _: str) -> None:
    """`wharf prove`."""
    statements.survey(policy)


def keeps(policy: CompiledPolicy, text: str) -> None:
    """`wharf prove --keeps`, with a variant that is enforced too."""
    other = compiled(text.replace('policy "hostile"', 'policy "other"').replace('"chain"', '"other"'))
    if other is not None:
        statements.keeps(policy, 'pod.namespace == "shop"', [other])


def same(policy: CompiledPolicy, text: str) -> None:
    """`wharf prove --same-as`, with the same text."""
    other = compiled(text, "other.policy")
    if other is not None:
        statements.same_as(policy, other)


def explain(policy: CompiledPolicy, _: str) -> None:
    """`wharf explain policy`, and the page about it."""
    state, waiting = CLUSTER
    found = explained_policy(assemble([policy]), assemble([]), state, policy.name, waiting)
    json.dumps(found.plain())
    str(found)


def explain_pod(policy: CompiledPolicy, _: str) -> None:
    """`wharf explain pod`, and `/explain`."""
    state, waiting = CLUSTER
    found = explained(assemble([policy]), state, waiting[0], NOW, state.snapshot().names[:1])
    json.dumps(found.plain())
    str(found)


def preview(policy: CompiledPolicy, _: str) -> float:
    """A PlacementPreview; the longest of its steps in seconds."""
    state, waiting = CLUSTER
    pods = [
        PodView(replace(waiting[0].object, metadata=replace(waiting[0].object.metadata, name=f"p-{n}", uid=f"p-{n}"))) for n in range(20)
    ]
    chain = assemble([policy])  # of the running scheduler
    longest, before = 0.0, time.process_time()
    for _step in answer_preview(chain, state.snapshot(), pods, namespace="default", what_if=WhatIf(capacity=True)):
        now = time.process_time()
        longest, before = max(longest, now - before), now
    return max(longest, time.process_time() - before)


def evaluation(policy: CompiledPolicy, _: str) -> float:
    """`/evaluate` and the expander, which place supposed pods on a supposed node; the longest step in seconds."""
    state, waiting = CLUSTER
    decider = Decider(assemble([policy]))  # of the running scheduler
    longest, before = 0.0, time.process_time()
    with SupposedChanges(state) as supposed:
        for _step in added(supposed, [NodesLike(model=state.snapshot().names[0], count=1)]):
            pass
        for _step in evaluated(decider, supposed, [PodView(each.object) for each in waiting]):
            now = time.process_time()
            longest, before = max(longest, now - before), now
    return longest


def compared(policy: CompiledPolicy, _: str) -> None:
    """`wharf diff`."""
    state, waiting = CLUSTER
    str(diff.diff(assemble([]), assemble([policy]), state, waiting))


def tuned(policy: CompiledPolicy, _: str) -> None:
    """`wharf tune`: what it can search, and the text with other values."""
    found = tunables.found([policy], assemble([policy]), kubernetes=True)
    tunables.change([policy.policy.source], tunables.edited([policy.policy.source], found, {each.name: each.value(0) for each in found}))


def metrics_page(policy: CompiledPolicy, _: str) -> None:
    """`/metrics` after some decisions."""
    state, waiting = CLUSTER
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    decider = Decider(
        assemble([policy]), stopwatch=DecisionStopwatch(metrics, StatisticsOfRules(metrics), "wharfinger", chance=lambda: 0.0)
    )
    for pod in waiting[:3]:
        decider.decide(state.snapshot(), pod)
    generate_latest(registry)


def at_places(ask: Callable[[Document, int], object]) -> Callable[[str], None]:
    """A question of an editor about a fresh document, at some places in it."""

    def door(text: str) -> None:
        document = Document("hostile.policy", text)
        for part in range(PARTS + 1):
            offset = len(text) * part // PARTS
            while 0 < offset < len(text) and text[offset].isspace():
                offset += 1
            ask(document, min(offset, len(text)))

    return door


def of_document(ask: Callable[[Document], object]) -> Callable[[str], None]:
    """A question of an editor about a fresh document."""
    return lambda text: [ask(Document("hostile.policy", text)), None][-1]


def renamed(document: Document, offset: int) -> None:
    """The occurrences of a name with another one."""
    navigation.renamable(document, offset)
    with contextlib.suppress(UsageError):
        navigation.renamed(document, offset, "another")


OF_TEXTS: dict[str, Callable[[str], None]] = {
    "check --cost": check_cost,
    "fmt": formatted,
    "test": tested,
    "playground": compiling,
    "review": review,
    "inline": inline,
    "findings": of_document(findings),
    "formatting": of_document(lambda document: document.formatted),
    "outline, folds": of_document(lambda document: (navigation.outline(document), navigation.folds(document))),
    "colours": of_document(highlighting.highlights),
    "hints": of_document(lambda document: inline_texts.InlayHints().of(document, 0, len(document.text))),
    "lenses": of_document(inline_texts.lenses),
    "hover": at_places(hover.hover),
    "completion": at_places(candidates.candidates),
    "signature": at_places(place.signatures),
    "actions": at_places(lambda document, offset: actions.actions(document, offset, min(offset + 200, len(document.text)))),
    "definition, references": at_places(lambda document, at: (navigation.definition(document, at), navigation.references(document, at))),
    "rename": at_places(renamed),
    "selection": at_places(navigation.selections),
}
OF_POLICIES: dict[str, Callable[[CompiledPolicy, str], float | None]] = {
    "prove": survey,
    "prove --keeps": keeps,
    "prove --same-as": same,
    "explain policy": explain,
    "explain pod": explain_pod,
    "preview": preview,
    "evaluate": evaluation,
    "diff": compared,
    "tune": tuned,
    "metrics": metrics_page,
}
CLUSTER: tuple[ClusterState, list[PodView]]


class TooLong(Exception):
    """Raised by a signal when a door has taken `MAX_CPU` seconds."""


def _stop(*_: object) -> None:
    raise TooLong


def seconds() -> float:
    """The seconds of the processor that this process has taken."""
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def measured(ask: Callable[[], float | None]) -> dict[str, object]:
    """The seconds of one door, of its longest step if it has steps, and its verdict."""
    before, step, verdict = seconds(), None, "answered"
    resource.setrlimit(resource.RLIMIT_CPU, (int(before) + MAX_CPU, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    try:
        step = ask()
    except WharfingerError as error:
        verdict = f"refused: {str(error)[:80]}"
    except TooLong:
        verdict = "no end"
    except Exception as error:  # noqa: BLE001 — this is what is looked for
        at = traceback.extract_tb(error.__traceback__)[-1]
        verdict = f"RAISES {type(error).__name__}: {str(error)[:80]} ({at.filename.rpartition('/')[2]}:{at.lineno})"
    return {"seconds": seconds() - before, "step": step or 0.0, "verdict": verdict}


def calls(text: str, doors: list[str]) -> dict[str, Callable[[], float | None]]:
    """The questions of these doors about a text; those about policies only if the text is accepted."""
    found: dict[str, Callable[[], float | None]] = {name: partial(door, text) for name, door in OF_TEXTS.items() if name in doors}
    wanted = {name: door for name, door in OF_POLICIES.items() if name in doors}
    policy = compiled(text) if wanted else None
    return found if policy is None else found | {name: partial(door, policy, text) for name, door in wanted.items()}


def through(text: str, doors: list[str]) -> dict[str, object]:
    """The measurements of a text at each of these doors."""
    signal.signal(signal.SIGXCPU, _stop)
    return {"doors": {name: measured(ask) for name, ask in calls(text, doors).items()}}


def main() -> None:
    """Measures and prints."""
    global CLUSTER  # noqa: PLW0603 — a process for each text inherits it
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--door", action="append", choices=[*OF_TEXTS, *OF_POLICIES], metavar="NAME")
    parser.add_argument("--above", type=float, default=SLOW, help="seconds of the processor that are shown")
    chosen = parser.parse_args()
    doors = chosen.door or [*OF_TEXTS, *OF_POLICIES]
    CLUSTER = cluster()
    for ask in calls(SMALL, doors).values():  # so that everything is imported
        ask()
    gc.collect()
    gc.freeze()  # as a scheduler does with its cluster; a collection of all of it would count as a step
    longest = dict.fromkeys(doors, (0.0, ""))
    for name, make in makers().items():
        if chosen.words and not any(word in name for word in chosen.words):
            continue
        text = make()
        found = hostile.apart(lambda text=text: through(text, doors), patience=MAX_CPU * len(doors))
        for door, each in found.get("doors", {doors[-1]: found}).items():
            longest[door] = max(longest[door], (each["seconds"], name))
            if each["seconds"] > chosen.above or each.get("step", 0.0) > MAX_STEP or each["verdict"].startswith(("RAISES", "no end")):
                step = f"step {1e3 * each['step']:.0f} ms | " if each.get("step") else ""
                print(f"{door} | {name} | {each['seconds']:.2f} s | {step}{each['verdict']}", flush=True)
        if found["megabytes"] > MAX_MEGABYTES:
            print(f"all | {name} | {found['megabytes']:.0f} MB", flush=True)
    for door, (taken, name) in longest.items():
        print(f"# {door}: the longest {taken:.2f} s, {name}", flush=True)


if __name__ == "__main__":
    main()
