"""Warnings about what policies read and a cluster does not have: label keys, and metrics.

Neither is an error of the language: any label key may exist, any metric may come later. But on a real cluster a key that no node has is
nearly always a mistake, and the key that was meant usually exists: `zone` for `topology.kubernetes.io/zone`. Where too few nodes have a
metric, the rules that use it do not apply, which the placements do not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from wharfinger.compiler import metrics, reads
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.crd import APP_LABEL, POLICY_LABEL
from wharfinger.language.report import wording
from wharfinger.language.report.wording import count
from wharfinger.language.semantics import typed
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot

GENERATED = frozenset({APP_LABEL, POLICY_LABEL})
MAX_NAMED = 20
"""Keys of labels that are named one by one: for each, all labels of the cluster are compared with it."""


def warnings(policies: Sequence[CompiledPolicy], snapshot: Snapshot, pods: Sequence[PodView]) -> list[str]:
    """One sentence for each label key that is read and absent, and for each suspended metric.

    Node labels are looked up in the snapshot, labels of the pod to be placed among those of `pods` that the policy may look at.
    """
    return [sentence for policy in policies for sentence in (*absent_labels(policy, snapshot, pods), *suspensions(policy, snapshot))]


def absent_labels(policy: CompiledPolicy, snapshot: Snapshot, pods: Sequence[PodView]) -> list[str]:
    """One sentence for each label key that is read and absent, of many for the first `MAX_NAMED`.

    Labels that the operator adds to the pods of PolicyApps are left out: their pods come after the policy.
    """
    return list(_absent_labels(policy, snapshot, pods))


def _absent_labels(policy: CompiledPolicy, snapshot: Snapshot, pods: Sequence[PodView]) -> Iterator[str]:
    absent = [
        key for key in _keys(policy, "node") | topology_keys(policy.policy) if snapshot.n_nodes and not (snapshot.label(key) >= 0).any()
    ]
    if absent:
        known = Counter(label for row in range(snapshot.n_nodes) for label in snapshot.node(row).labels)
        yield from _absent(policy.name, sorted(absent), known, snapshot.n_nodes, "node")
    seen = [pod for pod in pods if policy.authority.confined_to in {None, pod.namespace}]
    known = Counter(label for pod in seen for label in pod.labels)
    absent = sorted(key for key in _keys(policy, "pod") - GENERATED if seen and not known[key])
    yield from _absent(policy.name, absent, known, len(seen), "pod")


def _keys(policy: CompiledPolicy, subject: str) -> set[str]:
    return {key for owner, path, key in policy.reads if owner == subject and path == "labels" and key is not None}


def topology_keys(policy: typed.Policy) -> set[str]:
    """The label keys that `within:` and `by:` name as topology domains."""
    lets = {let.name: let.value for let in policy.lets}
    found: set[str] = set()
    for part in reads.walk(_expressions(policy), lets):
        if isinstance(part, typed.Aggregate) and part.topology_key is not None:
            found.add(part.topology_key)
        elif isinstance(part, typed.Call) and part.function.name == "spread":
            found |= {str(argument.value) for argument in part.arguments if isinstance(argument, typed.Const)}
    return found


def _expressions(policy: typed.Policy) -> Iterator[typed.Expr]:
    guards = [*(rule.when for rule in policy.filters), *(score.when for score in policy.scores)]
    yield from (guard for guard in guards if guard is not None)
    yield from (clause.condition for rule in policy.filters for clause in rule.clauses)
    yield from (score.value for score in policy.scores)
    yield from (key.value for key in policy.tie_break)


def _absent(policy: str, keys: Sequence[str], known: Mapping[str, int], total: int, noun: str) -> Iterator[str]:
    """A sentence for each of the first `MAX_NAMED` keys, and one for all others."""
    budget = wording.LetterBudget()
    for key in keys[:MAX_NAMED]:
        sentence = f"{policy}: label `{key}` is on 0 of {count(total, noun)}"
        closest = nearest(key, known, budget)
        yield sentence if closest is None else f"{sentence}; did you mean `{closest}` ({known[closest]})?"
    if len(keys) > MAX_NAMED:
        yield f"{policy}: {len(keys) - MAX_NAMED:,} more labels that it reads are on 0 of {count(total, noun)}"


def nearest(key: str, known: Iterable[str], budget: wording.LetterBudget | None = None) -> str | None:
    """The known key that was most likely meant: one with the same last part, or one with a similar name; None if there is none."""
    last = key.rpartition("/")[2]
    same = sorted((name for name in known if name.rpartition("/")[2] == last), key=lambda name: (len(name), name))
    return same[0] if same else wording.closest(key, known, budget)


def suspensions(policy: CompiledPolicy, snapshot: Snapshot) -> Iterator[str]:
    """One sentence for each metric of a policy that too few nodes have fresh samples of."""
    for metric in policy.policy.metrics:
        covered = metrics.coverage(snapshot, metric)
        if covered < metric.min_coverage:
            fresh = round(covered * snapshot.n_nodes)
            yield (
                f"{policy.name}: metric `{metric.name}` is fresh on {fresh} of {count(snapshot.n_nodes, 'node')}, "
                f"fewer than {100 * metric.min_coverage:g} %: the rules that use it are suspended"
            )
