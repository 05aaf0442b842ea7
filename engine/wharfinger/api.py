"""The public functions of `import wharfinger`. Each calls the same functions as the command line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, overload

from msgspec.structs import replace

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import UsageError
from wharfinger.explain import explanation as explaining
from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.explain.explained_group import ExplainedGroup, explained_group, known_group
from wharfinger.explain.explanation import Explanation
from wharfinger.framework import chain, kubernetes_profiles
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.groups.turns import all_groups
from wharfinger.language import load
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.model import objects
from wharfinger.model.objects import quantity
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.copies import checkpoint_of
from wharfinger.policies import candidate
from wharfinger.simulate.cluster import Cluster, load_cluster, load_pods
from wharfinger.simulate.dry_run import DryRun, dry_run
from wharfinger.simulate.placing import Mode
from wharfinger.simulate.replay import others
from wharfinger.what_if import capacity as counting
from wharfinger.what_if import diff as comparing
from wharfinger.what_if.capacity import Capacity
from wharfinger.what_if.diff import Diff, LogDiff, log_diff
from wharfinger.what_if.drain import plan as draining
from wharfinger.what_if.drain.answer import Drain
from wharfinger.what_if.leaving_pods import replaced_pods
from wharfinger.what_if.optimal import search as solving
from wharfinger.what_if.optimal.search import Optimal
from wharfinger.what_if.rebalance import plan as rebalancing
from wharfinger.what_if.rebalance.movable import CRITICAL, Limits, namespaces_without_pods
from wharfinger.what_if.rebalance.plan import PlanOptions, Rebalance
from wharfinger.what_if.supposed_changes import NodesLike
from wharfinger.what_if.tune import tunables, workloads
from wharfinger.what_if.tune.objectives import objective
from wharfinger.what_if.tune.search import DEFAULT_TRIALS, MAX_LOAD, MAX_SEED, MAX_TRIALS, Tuned, tuned
from wharfinger.what_if.tune.trials import Workload, processes
from wharfinger.what_if.tune.trials import dask as on_dask

Pod = PodView | Mapping[str, Any]


def load_policies(*paths: str | Path, params: Mapping[str, Any] | None = None) -> tuple[CompiledPolicy, ...]:
    """The compiled policies of files and folders. `params` by name: texts as in a policy (`"10%"`) or values in base units.

    Raises PolicyError, which carries every diagnostic, where one does not compile; UsageError for a path that cannot be read.
    """
    found, diagnostics = load.load_policies(paths, CATALOGUE)
    if diagnostics.has_errors:
        raise PolicyError(diagnostics)
    return candidate.compile_all([policy for policy in found if policy is not None], params or {})


def load_snapshot(*paths: str | Path, pods: Sequence[str | Path] = (), skip_invalid: bool = False, strict: bool = False) -> Cluster:
    """The cluster that files describe, as `kubectl get nodes,pods -A -o json` prints it (YAML, folders, .gz and `-` too).

    `pods` are files of pods and workloads to be placed instead of the snapshot's pending ones. Raises UsageError for a file that cannot be
    read, InvalidObject for an object that cannot be (unless `skip_invalid`) and, with `strict`, for fields of `pods` that Kubernetes does
    not know; otherwise sentences about them are in the cluster's `skipped`.
    """
    _refuse_other_than_texts(pods=pods)
    cluster = load_cluster(paths, skip_invalid=skip_invalid)
    if not pods:
        return cluster
    pending, warnings = load_pods(pods, cluster, skip_invalid=skip_invalid, strict=strict)
    return replace(cluster, pending=pending, skipped=(*cluster.skipped, *warnings))


def load_config(path: str | Path, scheduler_name: str | None = None) -> ChainConfig:
    """The settings of the built-in plugins that a KubeSchedulerConfiguration file gives for one of its profiles.

    Raises UsageError with a line for each setting that is not supported.
    """
    return kubernetes_profiles.profiles_of(path).of(scheduler_name)


def decide(policies: Sequence[CompiledPolicy], cluster: Cluster, pod: Pod, *, config: ChainConfig | None = None) -> Decision:
    """The decision about one pod: a node, or why there is none. Changes nothing."""
    return cycle.decide(_chain(policies, config), _checked_cluster(cluster).state.snapshot(), _view(pod))


def explain(
    policies: Sequence[CompiledPolicy], cluster: Cluster, pod: Pod, nodes: Sequence[str] = (), *, config: ChainConfig | None = None
) -> Explanation:
    """The explanation of a decision about a pod; prints as text.

    `nodes` are reported in full. Raises UnknownObject for a node that does not exist.
    """
    assembled = _chain(policies, config)
    return explaining.explain(assembled, _checked_cluster(cluster).state.snapshot(), _view(pod), PolicyExplainer(assembled), nodes)


def explain_group(policies: Sequence[CompiledPolicy], cluster: Cluster, group: str, *, config: ChainConfig | None = None) -> ExplainedGroup:
    """The explanation of the group `namespace/name`: missing members, or the members' nodes. Prints as text; changes nothing.

    Raises UnknownObject for a group without members.
    """
    assembled = _chain(policies, config)
    index = all_groups(assembled, _checked_cluster(cluster).state, cluster.pending)
    known_group(index, group)
    return explained_group(assembled, cluster.state, index, group, cluster.state.snapshot().now)


def place(
    policies: Sequence[CompiledPolicy],
    cluster: Cluster,
    pods: Sequence[Pod] | None = None,
    *,
    sequential: bool = True,
    config: ChainConfig | None = None,
) -> DryRun:
    """The decisions about `pods` (by default the pending ones of the cluster), in queue order.

    With `sequential` every placement counts for the pods after it, and the cluster's state is left with all of them assumed.
    """
    waiting = _pods_or_pending(cluster, pods) if sequential else _asked(cluster, pods)
    mode = Mode.SEQUENTIAL if sequential else Mode.INDEPENDENT
    return dry_run(_chain(policies, config), cluster.state, waiting, mode=mode)


@overload
def diff(
    policies: Sequence[CompiledPolicy],
    against: Sequence[CompiledPolicy],
    cluster: Cluster,
    pods: Sequence[Pod] | None = None,
    *,
    replace: Sequence[str] = (),
    by: Sequence[str] = (),
    config: ChainConfig | None = None,
    against_config: ChainConfig | None = None,
) -> Diff: ...


@overload
def diff(
    policies: Sequence[CompiledPolicy],
    against: Sequence[CompiledPolicy] | None = None,
    *,
    log: str | Path,
    scheduler_name: str | None = None,
) -> LogDiff: ...


def diff(  # noqa: PLR0913 — the keywords are independent choices
    policies: Sequence[CompiledPolicy],
    against: Sequence[CompiledPolicy] | None = None,
    cluster: Cluster | None = None,
    pods: Sequence[Pod] | None = None,
    *,
    replace: Sequence[str] = (),
    by: Sequence[str] = (),
    config: ChainConfig | None = None,
    against_config: ChainConfig | None = None,
    log: str | Path | None = None,
    scheduler_name: str | None = None,
) -> Diff | LogDiff:
    """The pods that `policies` place differently from `against`; `config` and `against_config` are the settings of each side.

    `pods` are by default the cluster's pending ones. Running pods that `replace` names (`all`, `namespace=…`, `selector=…`) are placed
    again. `by` are labels of nodes by which pods are counted on both sides; by default the zone. The state of the cluster is not changed.

    With `log`, the decisions of a decision log are compared, each on the cluster as it was then: those of the profile `scheduler_name`, or
    all. `against` is then by default what the log has.

    Raises UnknownObject for a label that no node has; UsageError for a word of `replace` that names no pod, a log that does not exist, and
    unless there is either a cluster or a log; BrokenLog where a log cannot be read on.
    """
    if log is not None:
        if cluster is not None or pods is not None or replace or by or config is not None or against_config is not None:
            raise UsageError("log= has its own cluster, pods and settings")
        before = None if against is None else others(lambda _chain: against, scheduler_name)
        return log_diff(log, others(lambda _chain: policies, scheduler_name), before)
    if cluster is None or against is None or scheduler_name is not None:
        raise UsageError("give against= and a cluster to compare on, or log=, and scheduler_name= with log= only")
    waiting = _pods_or_pending(cluster, pods)
    _refuse_other_than_texts(replace=replace, by=by)
    chains = _chain(against, against_config), _chain(policies, config)
    return comparing.diff(*chains, cluster.state, waiting, replaced=replaced_pods(cluster.state, replace), labels=by)


def capacity(  # noqa: PLR0913 — the keywords are independent choices
    policies: Sequence[CompiledPolicy],
    cluster: Cluster,
    pods: Sequence[Pod] | None = None,
    *,
    by: Sequence[str] = (),
    nodes: int = 0,
    like: str | None = None,
    most: int = counting.DEFAULT_LIMIT,
    changes: bool = True,
    config: ChainConfig | None = None,
) -> Capacity:
    """The number of further pods of each workload of `pods` (by default the pending ones) that fit, where, and what stops the next one.

    `by` are labels of nodes to count by; `nodes` further nodes like the node `like` are supposed. At most `most` further pods of a workload
    are counted. With `changes`, the result says what one change each would add. Raises UsageError for no pods, and
    for `nodes` without `like`; UnknownObject for a node, or a label of nodes, that does not exist.
    """
    _refuse_other_than_texts(by=by)
    _counts(0, counting.MAX_NODES, nodes=nodes)
    _counts(1, counting.MAX_LIMIT, most=most)
    if nodes and like is None:
        raise UsageError("nodes= is the number of nodes; like= is the node to copy")
    extra = NodesLike(model=like, count=nodes or 1) if like is not None else None
    waiting = _pods_or_pending(cluster, pods)
    assembled = _chain(policies, config)
    return counting.capacity(assembled, cluster.state, waiting, by=by, extra=extra, limit=most, changes=changes)


def drain(  # noqa: PLR0913 — the keywords are independent choices
    policies: Sequence[CompiledPolicy],
    cluster: Cluster,
    nodes: Sequence[str],
    *,
    force: bool = False,
    delete_empty_dir_data: bool = False,
    remove: bool = False,
    pods: Sequence[Pod] = (),
    config: ChainConfig | None = None,
) -> Drain:
    """The new nodes of the pods if these nodes were drained in this order, and the pods that could not leave.

    `force` and `delete_empty_dir_data` are kubectl's flags; with `remove` the nodes are removed at the end. `pods` are in the queue from
    the beginning. The state is left as it is after the drain. Raises UnknownObject for a node that does not exist; UsageError without any
    node.
    """
    _refuse_other_than_texts(nodes=nodes)
    if not nodes:
        raise UsageError("nodes= names no node to drain")
    return draining.drain(
        _chain(policies, config),
        _checked_cluster(cluster).state,
        nodes,
        force=force,
        delete_empty_dir_data=delete_empty_dir_data,
        remove=remove,
        waiting=_without_node(cluster, _views(pods)),
    )


def rebalance(  # noqa: PLR0913 — the keywords are independent choices
    policies: Sequence[CompiledPolicy],
    cluster: Cluster,
    goals: Sequence[str],
    pods: Sequence[Pod] | None = None,
    *,
    cost: float = 0.0,
    most_moves: int = rebalancing.DEFAULT_MOVES,
    most_cordons: int | None = None,
    whole: Mapping[str, str] | None = None,
    namespaces: Sequence[str] = (),
    min_age: float = 300.0,
    most_priority: int = CRITICAL - 1,
    pods_of: str | None = None,
    config: ChainConfig | None = None,
) -> Rebalance:
    """An ordered plan of moves of running pods by which the cluster comes nearer to goals.

    Goals are `violations`, `free-nodes`, `free-gpus` and `points`; each move must gain `cost` at least, in units of its goal. `whole` is
    what one whole GPU takes, as quantities by resource. A pod moves only if it is in one of `namespaces` (default: all but kube-system), is
    at least `min_age` seconds old, has no priority above `most_priority`, and names the scheduler `pods_of`, if one is given. Those of
    `pods` (default: the pending ones) that have a place get it first. The cluster's state is left as the plan leaves it.
    Raises UsageError for an unknown goal, a namespace without pods, a number out of its range, and a resource that no node offers;
    InvalidObject for a quantity that is none.
    """
    _refuse_other_than_texts(goals=goals, namespaces=namespaces)
    _at_least(0, cost=cost, min_age=min_age)
    _counts(1, most_moves=most_moves, most_cordons=1 if most_cordons is None else most_cordons)
    _counts(-math.inf, most_priority=most_priority)
    for name in namespaces_without_pods(namespaces, _checked_cluster(cluster).objects.pods):
        raise UsageError(f"namespaces={name}: the cluster has no pod there")
    if not isinstance(whole, Mapping | None):
        raise UsageError(f"whole: expected amounts by resource, such as {{'nvidia.com/gpu': '8'}}, not {whole!r}")
    unit = {name: quantity.amount_at(name, str(amount)) for name, amount in (whole or {}).items()}
    _at_least(1, **{f"whole {name}": amount for name, amount in unit.items()})
    plan_options = PlanOptions(
        goals=rebalancing.goals_named(goals),
        cost=cost,
        most_moves=most_moves,
        most_cordons=most_cordons,
        unit=unit,
        limits=Limits(namespaces=frozenset(namespaces), min_age_seconds=min_age, most_priority=most_priority, scheduler=pods_of),
    )
    return rebalancing.rebalance(_chain(policies, config), cluster.state, plan_options, _pods_or_pending(cluster, pods))


def optimal(
    policies: Sequence[CompiledPolicy],
    cluster: Cluster,
    pods: Sequence[Pod] | None = None,
    *,
    seconds: float = 10.0,
    config: ChainConfig | None = None,
) -> Optimal:
    """A placement of all of `pods` (by default the pending ones), running pods moved where needed, or the proof that there is none.

    Searches for at most `seconds`; needs the extra `optimal`. Changes nothing. Raises UsageError for `seconds` below 0.001.
    """
    _at_least(0.001, seconds=seconds)
    waiting = _pods_or_pending(cluster, pods)
    now = cluster.state.snapshot().now
    return solving.optimal(_chain(policies, config), checkpoint_of(cluster.state), now, waiting, seconds)


def tune(  # noqa: PLR0913 — the keywords are independent choices
    policies: Sequence[CompiledPolicy],
    cluster: Cluster | Sequence[Cluster],
    objectives: Sequence[str],
    *,
    logs: Sequence[str | Path] = (),
    search: Sequence[str] = (),
    kubernetes: bool = False,
    replace: Sequence[str] = (),
    load: float = 1.0,
    held_out: float = 0.5,
    trials: int = DEFAULT_TRIALS,
    seed: int = 0,
    jobs: int = 1,
    dask: str | None = None,
    config: ChainConfig | None = None,
) -> Tuned:
    """The numbers of policies that make the objectives small when pending pods are placed; needs the extra `tune`.

    Of several clusters and decision `logs` the objectives are means. `search` names params and weights, `NAME` or `NAME=LOW..HIGH`; without
    any, all are searched; with `kubernetes`, the weights of Kubernetes' scores too. Running pods that `replace` names (`all`,
    `namespace=…`, `selector=…`) are placed again; a `load` above 1 adds copies of some pods. A part of the nodes and pods, and the later
    part of each log, is held out of the search. With more than one of `jobs`, the trials run in processes, which import the main module of
    the program; with `dask`, on the Dask cluster whose scheduler has this address. Raises UsageError for a log that cannot be read, a
    number out of its range, and where there is nothing to search on, or for.
    """
    _refuse_other_than_texts(objectives=objectives, logs=logs, search=search, replace=replace)
    _counts(1, MAX_TRIALS, trials=trials)
    _counts(1, jobs=jobs)
    _counts(0, MAX_SEED, seed=seed)
    _at_least(0, held_out=held_out)
    _at_least(1, load=load)
    if load > MAX_LOAD:
        raise UsageError(f"load={load!r}: expected at most {MAX_LOAD}")
    if dask is not None and jobs != 1:
        raise UsageError("jobs= is for this machine; with dask= the cluster has as many processes as it has")
    if held_out >= 1 or not objectives:
        raise UsageError(f"held_out={held_out}: expected less than 1" if objectives else "objectives= names nothing to make small")
    clusters = [cluster] if isinstance(cluster, Cluster) else [_checked_cluster(each) for each in cluster]
    titles = ["cluster"] if len(clusters) == 1 else [f"cluster {number}" for number in range(1, len(clusters) + 1)]
    given: list[Workload] = [
        workloads.waiting(title, each.state, each.pending, config) for title, each in zip(titles, clusters, strict=True)
    ]
    given += [workloads.recorded(str(path))[0] for path in logs]
    if not given:
        raise UsageError("there is nothing to search on; give a cluster or a decision log")
    searched, kept = workloads.split([workloads.prepared(each, replace, load, seed) for each in given], held_out, seed)
    numbers = tunables.chosen(tunables.found(policies, _chain(policies, config), kubernetes=kubernetes), search, policies)
    goals = [objective(text) for text in objectives]
    where = partial(processes, jobs=jobs) if dask is None else partial(on_dask, address=dask)
    return tuned(policies, numbers, goals, searched, kept, where, n_trials=trials, seed=seed)


def _chain(policies: Sequence[CompiledPolicy], config: ChainConfig | None = None) -> chain.Chain:
    """The chain of policies and settings; UsageError for anything else."""
    if not isinstance(policies, Sequence) or not all(isinstance(policy, CompiledPolicy) for policy in policies):
        raise UsageError(f"policies: expected what load_policies returns, not {_type_text(policies)}")
    if not isinstance(config, ChainConfig | None):
        raise UsageError(f"config: expected what load_config returns, not {_type_text(config)}")
    return chain.assemble(policies, config)


def _checked_cluster(cluster: Cluster) -> Cluster:
    """The cluster; UsageError for anything else."""
    if not isinstance(cluster, Cluster):
        raise UsageError(f"cluster: expected what load_snapshot returns, not {_type_text(cluster)}")
    return cluster


def _refuse_other_than_texts(**given: object) -> None:
    """Raise UsageError for anything but lists of texts; a text alone is refused because its letters would be used as the list."""
    for name, value in given.items():
        if isinstance(value, str | Path):
            raise UsageError(f"{name}: expected a list, such as [{str(value)!r}], not {_type_text(value)}")
        if not isinstance(value, Sequence) or not all(isinstance(each, str | Path) for each in value):
            raise UsageError(f"{name}: expected a list of texts, not {value!r}")


def _counts(least: float, most: float = math.inf, /, **given: int) -> None:
    """Raise UsageError for anything but whole numbers from `least` to `most`."""
    for name, value in given.items():
        if not isinstance(value, int) or not least <= value <= most:
            upper = "" if math.isinf(most) else f" and at most {most}"
            lower = "" if math.isinf(least) else f" of at least {least}"
            raise UsageError(f"{name}={value!r}: expected a whole number{lower}{upper}")


def _at_least(least: float, **given: float) -> None:
    """Raise UsageError for a number below `least`, one that is not finite, and anything but a number."""
    for name, value in given.items():
        if not isinstance(value, int | float) or not least <= value < math.inf:
            raise UsageError(f"{name}={value!r}: expected a number of at least {least}")


def _type_text(value: object) -> str:
    return f"{type(value).__name__} {value!r}" if isinstance(value, str | Path) else type(value).__name__


def _pods_or_pending(cluster: Cluster, pods: Sequence[Pod] | None) -> Sequence[PodView]:
    """The pods that a question is about, which are to be placed together: UsageError as of `_without_node`."""
    return _without_node(cluster, _asked(cluster, pods))


def _asked(cluster: Cluster, pods: Sequence[Pod] | None) -> Sequence[PodView]:
    """The pods given, or the pending ones of the cluster."""
    found = _checked_cluster(cluster)
    return found.pending if pods is None else _views(pods)


def _without_node(cluster: Cluster, pods: Sequence[PodView]) -> Sequence[PodView]:
    """The pods; UsageError for one that is there twice, and for one that has a node in the cluster."""
    seen: set[str] = set()
    for pod in pods:
        if pod.uid in seen:
            raise UsageError(f"pods: {pod.key} is there twice; give each pod a name, or a metadata.uid, of its own")
        if cluster.state.is_placed(pod.uid):
            raise UsageError(
                f"pods: {pod.key} has a node in this cluster, perhaps by an earlier call; load the cluster again, or leave it out"
            )
        seen.add(pod.uid)
    return pods


def _views(pods: Sequence[Pod]) -> list[PodView]:
    """The views of pods; UsageError for anything but a list of them."""
    if isinstance(pods, Mapping | str) or not isinstance(pods, Sequence):
        raise UsageError(f"pods: expected a list of pods, not {_type_text(pods)}; load_snapshot(…, pods=[FILE]) reads them from files")
    return [_view(pod) for pod in pods]


def _view(pod: Pod) -> PodView:
    """The view of a pod; a mapping is read as a manifest. UsageError for one of another kind, and for anything else."""
    if isinstance(pod, PodView):
        return pod
    kind = pod.get("kind", "Pod") if isinstance(pod, Mapping) else type(pod).__name__
    if not isinstance(pod, Mapping) or kind != "Pod":
        raise UsageError(f"expected a pod, not {kind}; load_snapshot(…, pods=[FILE]) reads workloads")
    return PodView(decode.convert(dict(pod), objects.Pod))
