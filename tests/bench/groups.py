"""Measures the search for the place of a group, its results and its time: `python -m tests.bench.groups [random|large] [number of cases]`.

`random`: groups of 2 to 64 members on 8 to 64 nodes, with the answers of CP-SAT. `large`: groups of hundreds at 5,000 nodes.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence

from tests.bench.group_cases import RACK, feasible, group_of, random_case, state_of
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.groups.placing import placing
from wharfinger.groups.preempting import preempting
from wharfinger.groups.terms import Group, GroupTerms, Level, Placed, Preemption
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

CASES = 1_000
NODES, RACKS = 5_000, 50
AT_ONCE = 50.0  # milliseconds
CHAIN = assemble()


class Run:
    """A generator of steps run to its end: its answer, the processor time of all steps and of the longest, in milliseconds."""

    def __init__(self, steps: Generator[None, None, object]) -> None:
        self.longest = 0.0
        self.number = 0
        started = time.process_time()
        before = started
        while True:
            try:
                next(steps)
            except StopIteration as end:
                self.answer = end.value
                break
            finally:
                now = time.process_time()
                self.longest = max(self.longest, (now - before) * 1_000)
                before = now
                self.number += 1
        self.whole = (time.process_time() - started) * 1_000


def compare(cases: int) -> bool:
    """Print how often the search and CP-SAT agree, and the times; True if no feasible group was missed and no proof was wrong.

    All answers are measured before CP-SAT runs, which would take the caches of the processor.
    """
    runs: list[Run] = []
    for seed in range(cases):
        case = random_case(seed)
        runs.append(Run(placing(Decider(CHAIN), state_of(case), group_of(case))))
    answers: Counter[tuple[str, str]] = Counter()
    for seed, run in enumerate(runs):
        case = random_case(seed)
        can = {True: "possible", False: "impossible", None: "unknown"}[feasible(case)]
        answers[can, type(run.answer).__name__] += 1
        if isinstance(run.answer, Placed) and not agreed(state_of(case), group_of(case), run.answer):
            answers["refused by the chain", "Placed"] += 1
            print(f"case {seed}: the chain does not agree")
        if (can, type(run.answer).__name__) in {("possible", "Impossible"), ("possible", "NotFound"), ("impossible", "Placed")}:
            print(f"case {seed}: {can}, but {run.answer}")
    times, longest = [run.whole for run in runs], max(run.longest for run in runs)
    times.sort()
    for (can, answer), number in sorted(answers.items()):
        print(f"CP-SAT: {can:10}  answer: {answer:10}  {number:5}")
    soon = sum(each <= AT_ONCE for each in times) / len(times)
    print(f"within {AT_ONCE:.0f} ms: {soon:.1%}; median {times[len(times) // 2]:.1f} ms, longest {times[-1]:.0f} ms")
    print(f"longest step {longest:.1f} ms")
    wrong = {("possible", "Impossible"), ("possible", "NotFound"), ("impossible", "Placed"), ("refused by the chain", "Placed")}
    return not wrong & answers.keys()


def agreed(state: ClusterState, group: Group, answer: Placed) -> bool:
    """True if the chain agrees to each member of a placement in its order."""
    members = {pod.uid: pod for pod in group.waiting}
    for uid, name in answer.nodes.items():
        if name not in decide(CHAIN, state.snapshot(), members[uid]).feasible_nodes():
            return False
        state.assume(members[uid], name)
    return True


def cluster(used: int = 0) -> ClusterState:
    """5,000 nodes of 16 CPUs in 50 racks, on each of which a pod of low priority uses some."""
    state = ClusterState(1_000.0)
    for number in range(NODES):
        name = f"n{number}"
        labels = {"kubernetes.io/hostname": name, RACK: f"r{number % RACKS}"}
        offer = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        state.add_node(objects.Node(metadata=objects.ObjectMeta(name=name, labels=labels), status=objects.NodeStatus(allocatable=offer)))
        if used:
            state.add_pod(member(f"low-{number}", used, -1, name).object)
    return state


def member(name: str, cpu: int, priority: int = 0, node: str = "") -> PodView:
    """A pod that requests some CPUs."""
    container = objects.Container(name="main", resources=objects.ContainerResources(requests={"cpu": str(cpu), "memory": "1Gi"}))
    spec = objects.PodSpec(containers=(container,), priority=priority, node_name=node)
    return PodView(objects.Pod(metadata=objects.ObjectMeta(name=name, namespace="default", uid=name), spec=spec))


def gang(sizes: Sequence[tuple[int, int]], levels: Sequence[Level] = ()) -> Group:
    """A gang of (number of members, CPUs of each)."""
    waiting = tuple(member(f"m{cpu}-{number}", cpu) for count, cpu in sizes for number in range(count))
    terms = GroupTerms(min_count=len(waiting), source="PodGroup default/bench", levels=tuple(levels))
    return Group(key="default/bench", terms=terms, waiting=waiting)


def large() -> None:
    """Print what large groups at 5,000 nodes get, and the times."""
    rack = (Level(RACK),)
    empty, full = cluster(), cluster(used=12)
    questions: list[tuple[str, ClusterState, Group]] = [
        ("4 members", empty, gang([(4, 4)])),
        ("4 members in one rack of 50", empty, gang([(4, 4)], rack)),
        ("1,000 members", empty, gang([(1_000, 4)])),
        ("1,000 members of two kinds", empty, gang([(1, 16), (999, 4)])),
        ("300 members in one rack of 50", empty, gang([(300, 4)], rack)),
        ("512 members, no place", full, gang([(512, 8)])),
        ("512 members in one rack of 50, no place", empty, gang([(512, 4)], rack)),
        ("512 members of two kinds in one rack, no place", empty, gang([(256, 4), (256, 3)], rack)),
        ("512 members of three kinds in one rack, no place", empty, gang([(256, 3), (200, 4), (56, 5)], rack)),
    ]
    deciders = {id(state): Decider(CHAIN) for state in (empty, full)}
    for name, state, group in questions:
        print_run(name, Run(placing(deciders[id(state)], state, group)))
    print_run("preemption for 64 members of 8 CPUs", Run(preempting(deciders[id(full)], full, gang([(64, 8)]))))
    print_run("preemption for 64 members in one rack of 50", Run(preempting(deciders[id(full)], full, gang([(64, 8)], rack))))


def print_run(name: str, run: Run) -> None:
    """Print a line about a run."""
    answer = run.answer
    what = f"{len(answer.victims)} victims" if isinstance(answer, Preemption) else getattr(answer, "message", "")
    times = f"{run.whole:7.0f} ms, longest of {run.number} steps {run.longest:5.1f} ms"
    print(f"{name:50} {type(answer).__name__:10} {times}  {what}")


def main(words: Sequence[str]) -> int:
    """Run the benchmarks that the words name; 1 if an answer was wrong."""
    named = [word for word in words if not word.isdigit()] or ["random", "large"]
    cases = next((int(word) for word in words if word.isdigit()), CASES)
    gc.disable()  # the scheduler controls its garbage collections (`wharfinger.event_loop`)
    right = compare(cases) if "random" in named else True
    if "large" in named:
        large()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
