"""Random groups on random clusters, written down plainly, and whether they can be placed, by CP-SAT.

A case is data: nodes, what runs on them, and classes of members with their wishes. From it come the objects that the search reads, and a
model for CP-SAT, each on its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from ortools.sat.python import cp_model

from wharfinger.groups.terms import Group, GroupTerms, Level
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

HOST, RACK, BLOCK = "kubernetes.io/hostname", "example.com/rack", "example.com/block"
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class CaseNode:
    name: str
    rack: str
    block: str
    free: dict[str, int]
    ssd: bool = False
    tainted: bool = False
    runs: str = ""  # the label `app` of a pod that runs there
    fences: str = ""  # the label `app` that this pod keeps off its rack

    def domain(self, key: str) -> str:
        return {HOST: self.name, RACK: self.rack, BLOCK: self.block}[key]


@dataclass(frozen=True)
class CaseClass:
    app: str
    number: int
    needs: dict[str, int]
    port: int = 0
    ssd: bool = False
    tolerates: bool = False
    priority: int = 0
    apart: tuple[tuple[str, str], ...] = ()  # (topology key, app) that it must not be with
    near: tuple[str, str] | None = None  # (topology key, app) that it must be with; app "" for every member of the group
    spread: tuple[str, int] | None = None  # (topology key, max skew) over its own app


@dataclass(frozen=True)
class Case:
    nodes: tuple[CaseNode, ...]
    classes: tuple[CaseClass, ...]
    min_count: int
    levels: tuple[Level, ...] = ()
    seed: int = 0
    n_members: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_members", sum(each.number for each in self.classes))


def random_case(seed: int) -> Case:
    """A case of 2–64 members in 1–5 classes on 8–64 nodes in racks and blocks."""
    random = Random(seed)
    n_nodes = random.randint(8, 64)
    n_racks = random.randint(2, max(2, min(8, n_nodes // 4)))
    shapes = [{"cpu": random.choice([4, 8, 16, 32]), "memory": random.choice([8, 16, 32, 64])} for _ in range(random.randint(1, 3))]
    if random.random() < 0.3:
        shapes[0][GPU] = random.choice([1, 2, 4, 8])
    total = random.randint(2, 64)
    apps = [f"a{index}" for index in range(min(total, random.choice([1, 1, 2, 2, 3, 3, 4, 5, 6, 8])))]
    nodes = []
    for number in range(n_nodes):
        shape = random.choice(shapes)
        used = random.choice([0.0, 0.0, 0.3, 0.6]) if random.random() < 0.7 else random.random()
        rack = number % n_racks
        nodes.append(
            CaseNode(
                name=f"n{number}",
                rack=f"r{rack}",
                block=f"b{rack // 2}",
                free={name: int(amount * (1 - used)) for name, amount in shape.items()},
                ssd=random.random() < 0.7,
                tainted=random.random() < 0.15,
                runs=random.choice(apps) if random.random() < 0.06 else "",
                fences=random.choice(apps) if random.random() < 0.02 else "",
            )
        )
    levels = random.choice(
        [(), (), (Level(RACK),), (Level(BLOCK),), (Level(BLOCK), Level(RACK)), (Level(BLOCK), Level(RACK, required=False))]
    )
    room = sum(node.free["cpu"] for node in nodes) / (n_racks if levels and levels[0].key == RACK else 2 if levels else 1)
    sizes = _split(random, total, len(apps))
    load = random.uniform(0.05, 0.8)
    per_member = max(1.0, room * load / total)
    whole = (random.choice([RACK, BLOCK]), "") if random.random() < 0.12 else None
    gpus = any(GPU in shape for shape in shapes)
    classes = tuple(
        _random_class(random, number, apps, {"number": size, **_random_needs(random, per_member, gpus=gpus)}, whole)
        for number, size in enumerate(sizes)
    )
    least = total if random.random() < 0.75 else max(1, int(total * random.uniform(0.5, 1)))
    return Case(nodes=tuple(nodes), classes=classes, min_count=least, levels=levels, seed=seed)


def _split(random: Random, total: int, parts: int) -> list[int]:
    cuts = sorted(random.sample(range(1, total), parts - 1))
    return [right - left for left, right in zip([0, *cuts], [*cuts, total], strict=True)]


def _random_needs(random: Random, cpu: float, *, gpus: bool) -> dict[str, int]:
    needs = {"cpu": max(1, min(32, round(cpu * random.choice([0.5, 1, 1, 2])))), "memory": random.choice([1, 2, 4, 8])}
    if random.random() < 0.25 and gpus:
        needs[GPU] = random.choice([1, 1, 2])
    return needs


def _random_class(random: Random, number: int, apps: list[str], needs: dict[str, int], whole: tuple[str, str] | None) -> CaseClass:
    app, size = apps[number], needs.pop("number")
    earlier = apps[:number]
    apart: list[tuple[str, str]] = []
    if random.random() < 0.15:
        apart.append((HOST, app))
    if random.random() < 0.05 and size <= 8:
        apart.append((RACK, app))
    if earlier and random.random() < 0.15:
        apart.append((random.choice([HOST, HOST, RACK]), random.choice(earlier)))
    near = whole
    if near is None and random.random() < 0.15:
        near = (random.choice([RACK, RACK, BLOCK, HOST]), random.choice([*earlier, app]))
    spread = (random.choice([HOST, RACK]), random.choice([1, 2, 3])) if random.random() < 0.12 else None
    return CaseClass(
        app=app,
        number=size,
        needs=needs,
        port=8080 if random.random() < 0.08 else 0,
        ssd=random.random() < 0.1,
        tolerates=random.random() < 0.5,
        priority=random.choice([0, 0, 10]),
        apart=tuple(apart),
        near=near,
        spread=spread,
    )


# ── as objects ──


def state_of(case: Case) -> ClusterState:
    """The cluster of a case."""
    state = ClusterState(1_000.0)
    for node in case.nodes:
        labels = {HOST: node.name, RACK: node.rack, BLOCK: node.block, **({"disk": "ssd"} if node.ssd else {})}
        allocatable = {name: f"{amount}Gi" if name == "memory" else str(amount) for name, amount in node.free.items()}
        taints = (objects.Taint(key="reserved", effect="NoSchedule"),) if node.tainted else ()
        state.add_node(
            objects.Node(
                metadata=objects.ObjectMeta(name=node.name, labels=labels),
                spec=objects.NodeSpec(taints=taints),
                status=objects.NodeStatus(allocatable={**allocatable, "pods": "110"}),
            )
        )
        if node.runs or node.fences:
            anti = (_term(RACK, node.fences),) if node.fences else ()
            affinity = objects.Affinity(pod_anti_affinity=objects.PodAffinity(required_during_scheduling_ignored_during_execution=anti))
            state.add_pod(
                objects.Pod(
                    metadata=objects.ObjectMeta(
                        name=f"on-{node.name}", namespace="default", uid=f"on-{node.name}", labels={"app": node.runs}
                    ),
                    spec=objects.PodSpec(node_name=node.name, affinity=affinity),
                )
            )
    return state


def group_of(case: Case) -> Group:
    """The group of a case."""
    waiting = tuple(member for each in case.classes for member in _members(each))
    terms = GroupTerms(min_count=case.min_count, source="PodGroup default/random", levels=case.levels)
    return Group(key="default/random", terms=terms, waiting=waiting)


def _term(key: str, app: str) -> objects.PodAffinityTerm:
    selector = objects.LabelSelector(match_labels={"app": app} if app else {"group": "random"})
    return objects.PodAffinityTerm(topology_key=key, label_selector=selector)


def _members(each: CaseClass) -> list[PodView]:
    requests = {name: f"{amount}Gi" if name == "memory" else str(amount) for name, amount in each.needs.items()}
    ports = (objects.ContainerPort(container_port=each.port, host_port=each.port),) if each.port else ()
    container = objects.Container(name="main", resources=objects.ContainerResources(requests=requests), ports=ports)
    near = (_term(*each.near),) if each.near else ()
    apart = tuple(_term(key, app) for key, app in each.apart)
    affinity = objects.Affinity(
        pod_affinity=objects.PodAffinity(required_during_scheduling_ignored_during_execution=near),
        pod_anti_affinity=objects.PodAffinity(required_during_scheduling_ignored_during_execution=apart),
    )
    spread = ()
    if each.spread:
        spread = (
            objects.TopologySpreadConstraint(
                topology_key=each.spread[0],
                max_skew=each.spread[1],
                when_unsatisfiable="DoNotSchedule",
                label_selector=objects.LabelSelector(match_labels={"app": each.app}),
            ),
        )
    spec = objects.PodSpec(
        containers=(container,),
        affinity=affinity if near or apart else None,
        topology_spread_constraints=spread,
        node_selector={"disk": "ssd"} if each.ssd else {},
        tolerations=(objects.Toleration(key="reserved", operator="Exists"),) if each.tolerates else (),
        priority=each.priority,
    )
    labels = {"app": each.app, "group": "random"}
    return [
        PodView(
            objects.Pod(
                metadata=objects.ObjectMeta(name=f"{each.app}-{n}", namespace="default", uid=f"{each.app}-{n}", labels=labels), spec=spec
            )
        )
        for n in range(each.number)
    ]


# ── as a model for CP-SAT ──


def feasible(case: Case, seconds: float = 20.0) -> bool | None:
    """True if the group can be placed, False if it cannot, None if CP-SAT does not know in time."""
    required = [level.key for level in case.levels if level.required]
    domains = sorted({tuple(node.domain(key) for key in required) for node in case.nodes})
    answers = [
        _in_domain(case, [node for node in case.nodes if tuple(map(node.domain, required)) == domain], seconds) for domain in domains
    ]
    return True if True in answers else None if None in answers else False


def _in_domain(case: Case, nodes: list[CaseNode], seconds: float) -> bool | None:
    model = cp_model.CpModel()
    x: dict[tuple[str, str], cp_model.IntVar] = {}
    for each in case.classes:
        for node in nodes:
            there = (node.ssd or not each.ssd) and (each.tolerates or not node.tainted)
            there &= all(not (each.app == other.fences and other.rack == node.rack) for other in case.nodes if other.fences)
            there &= not any(other.runs == app and other.domain(key) == node.domain(key) for key, app in each.apart for other in case.nodes)
            x[each.app, node.name] = model.new_int_var(0, each.number if there else 0, f"x {each.app} {node.name}")
        model.add(sum(x[each.app, node.name] for node in nodes) <= each.number)
    model.add(sum(x.values()) >= case.min_count)
    for node in nodes:
        for name in ("cpu", "memory", GPU):
            model.add(sum(x[each.app, node.name] * each.needs.get(name, 0) for each in case.classes) <= node.free.get(name, 0))
        with_port = [x[each.app, node.name] for each in case.classes if each.port]
        if with_port:
            model.add(sum(with_port) <= 1)
    for each in case.classes:
        _apart(case, model, x, nodes, each)
        if each.spread:
            _spread(case, model, x, nodes, each)
    for near in sorted({each.near for each in case.classes if each.near}):
        _near(case, model, x, nodes, near)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    return None if status == cp_model.UNKNOWN else status in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def _inside(nodes: list[CaseNode], key: str) -> dict[str, list[CaseNode]]:
    found: dict[str, list[CaseNode]] = {}
    for node in nodes:
        found.setdefault(node.domain(key), []).append(node)
    return found


def _apart(case: Case, model: cp_model.CpModel, x: dict, nodes: list[CaseNode], each: CaseClass) -> None:
    for key, app in each.apart:
        for inside in _inside(nodes, key).values():
            mine = sum(x[each.app, node.name] for node in inside)
            if app == each.app:
                model.add(mine <= 1)
            elif (other := next((found for found in case.classes if found.app == app), None)) is not None:
                either = model.new_bool_var("")
                model.add(mine <= each.number * either)
                model.add(sum(x[app, node.name] for node in inside) <= other.number * (1 - either))


def _near(case: Case, model: cp_model.CpModel, x: dict, nodes: list[CaseNode], near: tuple[str, str]) -> None:
    """Domains with a member that wishes have one that grants, or a pod that runs there, or are where the first wishing pod started."""
    key, app = near
    wishing = [each for each in case.classes if each.near == near]
    granting = [each for each in case.classes if (not app or each.app == app) and each.near != near]
    starting = [each for each in wishing if not app or each.app == app]
    anywhere = any(node.runs == app for node in case.nodes) if app else False
    starts = []
    for domain, inside in _inside(nodes, key).items():
        if app and any(node.runs == app and node.domain(key) == domain for node in case.nodes):
            continue
        start = model.new_bool_var("")
        starts.append(start)
        model.add(start <= (0 if anywhere else sum(x[each.app, node.name] for each in starting for node in inside)))
        mine = sum(x[each.app, node.name] for each in wishing for node in inside)
        granted = sum(x[each.app, node.name] for each in granting for node in inside)
        model.add(mine <= 64 * (start + granted))
    model.add(sum(starts) <= 1)


def _spread(case: Case, model: cp_model.CpModel, x: dict, nodes: list[CaseNode], each: CaseClass) -> None:
    """Checks that in the end no domain that got a member has more than the emptiest eligible domain and the skew."""
    key, skew = each.spread or ("", 0)
    eligible = _inside([node for node in case.nodes if node.ssd or not each.ssd], key)
    inside = _inside(nodes, key)
    lowest = model.new_int_var(0, 1000, "")
    counts = {}
    for domain, there in eligible.items():
        before = sum(1 for node in there if node.runs == each.app)
        counts[domain] = before + sum(x[each.app, node.name] for node in inside.get(domain, ()))
        model.add(counts[domain] >= lowest)
    for domain, members in inside.items():
        if domain in counts:
            got = model.new_bool_var("")
            model.add(sum(x[each.app, node.name] for node in members) <= each.number * got)
            model.add(counts[domain] <= lowest + skew).only_enforce_if(got)
