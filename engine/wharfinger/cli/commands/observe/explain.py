"""`wharf explain`: why a pod or a group is on its nodes or pending; which pods a policy governs, and what it rejects and changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import quote

import typer

from wharfinger.cli import chosen_policies, live_cluster, options, running_process, streams
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.explain.explained_group import ExplainedGroup, explained_group, known_group
from wharfinger.explain.explained_pod import ExplainedPod, explained, unknown_pod
from wharfinger.explain.explained_policy import ExplainedPolicy, explained_policy
from wharfinger.framework.chain import Chain, assemble, with_policies
from wharfinger.groups.turns import all_groups
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate.cluster import Cluster

PODS = ("pod", "pods", "po")
GROUPS = ("group", "groups", "podgroup", "podgroups")
POLICIES = ("policy", "policies")


def _complete_kinds(incomplete: str) -> list[str]:
    return [kind for kind in ("pod", "group", "policy") if kind.startswith(incomplete)]


def wharf_explain(  # noqa: PLR0913, PLR0917 — one parameter per flag
    kind: Annotated[
        str, typer.Argument(metavar="pod|group|policy", help="What to explain: pod, group or policy.", autocompletion=_complete_kinds)
    ],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The name; NAMESPACE/NAME for a pod or group outside of the namespace default.",
            autocompletion=options.complete_subjects,
        ),
    ],
    url: running_process.Url = running_process.LOCAL_ADDRESS,
    snapshot: Annotated[list[str] | None, options.SNAPSHOT] = None,
    live: Annotated[bool, typer.Option("--live", help="Decide here, on the cluster that the kubeconfig names.")] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    policy: options.Policies = None,
    param: options.Params = None,
    config: options.Config = None,
    scheduler_name: options.SchedulerName = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            metavar="NODE",
            help="Report every rule for this node; may be given several times.",
            autocompletion=options.complete_nodes,
        ),
    ] = None,
    output: options.TextOrJson = "text",
) -> int:
    """Explain why a pod is on its node or is pending, why a group waits, or what a policy does. Writes nothing to the cluster.

    For a pod: why not on other nodes, and what would have to change. For a group: how many members each domain takes, and what stops the
    rest. For a policy: which pods it governs, which nodes it rejects for them, for which pods it makes a difference, and its cost. Asks the
    scheduler at --url; with --snapshot or --live, decides here by the policies of --policy.

    $ wharf explain pod shop/web-0
    """
    if kind not in {*PODS, *GROUPS, *POLICIES}:
        raise UsageError(
            f"{kind}: a pod, a group or a policy can be explained: wharf explain pod NAMESPACE/NAME, wharf explain group NAMESPACE/NAME, "
            "wharf explain policy NAME"
        )
    if kind not in PODS and node:
        raise UsageError("--node is about a pod: wharf explain pod NAMESPACE/NAME --node NODE")
    path = f"/policies/{quote(name, safe='')}/explain" if kind in POLICIES else f"/explain/{'group/' * (kind in GROUPS)}{quote(_key(name))}"
    if not (snapshot or live):
        _refuse_policies(policy, param, config, scheduler_name)
        _refuse_cluster_flags(kubeconfig, context)
        streams.out(_from_scheduler(url, path, node or [], output))
        return 0
    chain = assemble(chosen_policies.compiled(policy, param), chosen_policies.chosen(config, scheduler_name))
    if kind in POLICIES:
        _known(chain, name)
    found = live_cluster.cluster_of(snapshot or [], kubeconfig, context, live=live, skip_invalid=False)
    streams.out(_shown(_explained(chain, found, kind, name, node or []), output))
    return 0


def _explained(chain: Chain, found: Cluster, kind: str, name: str, nodes: Sequence[str]) -> ExplainedPod | ExplainedGroup | ExplainedPolicy:
    """An explanation by deciding in this process, with a chain and a cluster."""
    if kind in POLICIES:
        without = with_policies(chain, [each for each in chain.policies if each.name != name])
        return explained_policy(chain, without, found.state, name, found.pending)
    index, now = all_groups(chain, found.state, found.pending), found.state.snapshot().now
    if kind in GROUPS:
        return explained_group(chain, found.state, index, known_group(index, _key(name)), now)
    return explained(chain, found.state, _pod(found, _key(name)), now, nodes, index)


def _known(chain: Chain, name: str) -> None:
    """Raise UnknownObject unless the chain has a policy of that name."""
    names = [policy.name for policy in chain.policies]
    if name not in names:
        nearest = wording.closest(name, names)
        others = f"there {'is' if len(names) == 1 else 'are'} {', '.join(names)}" if names else "give some with --policy"
        raise UnknownObject(f"there is no policy {name}; " + (f"did you mean {nearest}?" if nearest else others))


def _key(name: str) -> str:
    namespace, slash, own = name.rpartition("/")
    if not own or "/" in namespace or (slash and not namespace):
        raise UsageError(f"{name}: expected NAME or NAMESPACE/NAME")
    return f"{namespace or 'default'}/{own}"


def _refuse_policies(*given: object) -> None:
    if any(given):
        raise UsageError(
            "a running scheduler explains by its own policies and settings; with --policy, --param, --config or --scheduler-name, "
            "say also on what: --snapshot FILE or --live"
        )


def _refuse_cluster_flags(*given: str | None) -> None:
    if any(given):
        raise UsageError("--kubeconfig and --context say which cluster --live is about; a running scheduler is asked at its --url")


def _from_scheduler(url: str, path: str, nodes: list[str], output: str) -> str:
    query = "&".join([f"format={output}", *(f"node={quote(node, safe='')}" for node in nodes)])
    return running_process.text(url, f"{path}?{query}")


def _pod(found: Cluster, key: str) -> PodView:
    pods = {view.key: view for view in map(PodView, found.objects.of(objects.Pod))}
    if key not in pods:
        raise unknown_pod(key, pods)
    if pods[key].finished:
        raise UsageError(f"pod {key} has ended ({pods[key].object.status.phase}); nothing is decided about it any more")
    return pods[key]


def _shown(explained: ExplainedPod | ExplainedGroup | ExplainedPolicy, output: str) -> str:
    return str(explained) if output == "text" else streams.json_text(explained.plain())
