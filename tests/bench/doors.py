"""Measures hostile texts at every door: `python -m tests.bench.doors [--door NAME…] [WORD…]`, for the texts whose name has a word in it.

A door is a command, a part of the scheduler or an answer of the language server that reads the text of a policy. Each reads each text in a
separate process, which gives its seconds of the processor and its memory. What takes long is printed, by door.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import sys
from collections.abc import Callable, Iterator

from tests.bench import hostile
from tests.hostile.texts import texts
from wharfinger.authoring import actions, highlighting, hover, inline_texts, navigation
from wharfinger.authoring.completion import candidates, place
from wharfinger.authoring.document import Document, findings
from wharfinger.builtins import CATALOGUE
from wharfinger.cli.commands.author import check as check_command
from wharfinger.compiler import cost
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import WharfingerError
from wharfinger.explain.explained_policy import explained_policy
from wharfinger.framework.chain import assemble
from wharfinger.language.format import format_source
from wharfinger.language.load import TextSet
from wharfinger.language.report import render
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics.authority import Authority, TenantRights
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.operator import policy_admission, preview_question
from wharfinger.operator.preview_answer import answer_preview
from wharfinger.policies import policy_tests
from wharfinger.prove import statements
from wharfinger.simulate import workloads

NODES, PLACED, WAITING = 100, 500, 20
PARTS = 4  # an editor asks at the beginning, at the end and in between
MAX_CPU = 20  # seconds of the processor until a process is ended
SLOW = 0.4
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


def survey(text: str) -> None:
    """`wharf prove`."""
    policy = compiled(text)
    if policy is not None:
        statements.survey(policy)


def keeps(text: str) -> None:
    """`wharf prove --keeps`, with a variant that is enforced too."""
    policy, other = compiled(text), compiled(text.replace('policy "hostile"', 'policy "other"').replace('"chain"', '"other"'))
    if policy is not None and other is not None:
        statements.keeps(policy, 'pod.namespace == "shop"', [other])


def same(text: str) -> None:
    """`wharf prove --same-as`, with the same text."""
    policy, other = compiled(text), compiled(text, "other.policy")
    if policy is not None and other is not None:
        statements.same_as(policy, other)


def explain(text: str) -> None:
    """`wharf explain policy`."""
    policy = compiled(text)
    if policy is not None:
        state, waiting = CLUSTER
        str(explained_policy(assemble([policy]), assemble([]), state, policy.name, waiting))


def preview(text: str) -> None:
    """A PlacementPreview with an inline policy."""
    state, waiting = CLUSTER
    policy = preview_question.compiled(text, {}, Authority("default", RIGHTS.policies))
    for _ in answer_preview(assemble([policy]), state.snapshot(), waiting, namespace="default"):
        pass


def at_places(ask: Callable[[Document, int], object]) -> Callable[[str], None]:
    """A question of an editor about a fresh document, at some places in it; the slowest of them counts, so each is asked alone."""

    def door(text: str) -> None:
        offset = len(text) * PLACE // PARTS
        while 0 < offset < len(text) and text[offset].isspace():
            offset += 1
        ask(Document("hostile.policy", text), min(offset, len(text)))

    return door


PLACE = 0


def of_document(ask: Callable[[Document], object]) -> Callable[[str], None]:
    """A question of an editor about a fresh document."""
    return lambda text: [ask(Document("hostile.policy", text)), None][-1]


DOORS: dict[str, Callable[[str], None]] = {
    "check --cost": check_cost,
    "fmt": formatted,
    "test": tested,
    "review": review,
    "prove": survey,
    "prove --keeps": keeps,
    "prove --same-as": same,
    "explain policy": explain,
    "preview": preview,
    "findings": of_document(findings),
    "formatting": of_document(lambda document: document.formatted),
    "outline, folds": of_document(lambda document: (navigation.outline(document), navigation.folds(document))),
    "colours": of_document(highlighting.highlights),
    "hints": of_document(lambda document: inline_texts.InlayHints().of(document, 0, len(document.text))),
    "lenses": of_document(inline_texts.lenses),
}
AT_PLACES: dict[str, Callable[[str], None]] = {
    "hover": at_places(hover.hover),
    "completion": at_places(candidates.candidates),
    "signature": at_places(place.signatures),
    "actions": at_places(lambda document, offset: actions.actions(document, offset, min(offset + 200, len(document.text)))),
    "definition, references": at_places(lambda document, at: (navigation.definition(document, at), navigation.references(document, at))),
    "selection": at_places(navigation.selections),
}
CLUSTER: tuple[ClusterState, list[PodView]]


def measured(door: Callable[[str], None], text: str) -> dict[str, object]:
    """The seconds and the verdict of one door about one text."""
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU, MAX_CPU + 1))
    before = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    verdict = "answered"
    try:
        door(text)
    except WharfingerError as error:
        verdict = f"refused: {str(error)[:80]}"
    return {"seconds": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - before, "verdict": verdict}


def questions(doors: list[str]) -> Iterator[tuple[str, Callable[[str], None], int]]:
    """The doors, each with the place in the text that it is asked about."""
    for name, door in DOORS.items():
        if not doors or name in doors:
            yield name, door, 0
    for name, door in AT_PLACES.items():
        if not doors or name in doors:
            yield from ((name, door, part) for part in range(PARTS + 1))


def main() -> None:
    """Measures and prints."""
    global CLUSTER, PLACE  # noqa: PLW0603 — a process for each measurement inherits them
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--door", action="append", default=[])
    parser.add_argument("--above", type=float, default=SLOW)
    chosen = parser.parse_args()
    CLUSTER = cluster()
    wanted = [(name, text) for name, text in texts() if not chosen.words or any(word in name for word in chosen.words)]
    for door in (*DOORS.values(), *AT_PLACES.values()):  # so that everything is imported
        with contextlib.suppress(WharfingerError):
            door('policy "hostile"\nfilter f { require node.pod_count < 3 }\n')
    for door_name, door, part in questions(chosen.door):
        PLACE = part
        found = [(hostile.apart(lambda text=text, door=door: measured(door, text)), name) for name, text in wanted]
        slow = sorted(((f["seconds"], f["megabytes"], n, f["verdict"]) for f, n in found), key=lambda row: -row[0])
        for seconds, megabytes, name, verdict in slow:
            if seconds > chosen.above:
                print(f"{door_name} {part} | {name} | {seconds:.2f} s | {megabytes:.0f} MB | {verdict}", flush=True)
        print(f"# {door_name} {part}: the longest {slow[0][0]:.2f} s, {slow[0][2]}", flush=True)


if __name__ == "__main__":
    main()
    sys.exit()
