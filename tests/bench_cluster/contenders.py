"""The schedulers that are compared, each as one process with its usual settings."""

from __future__ import annotations

import os
import shlex
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.cluster.control_plane import ControlPlane
from tests.cluster.kube_scheduler import start_kube_scheduler
from tests.cluster.programs import Program, free_ports

ROOT = Path(__file__).parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
KUBE_SCHEDULER = "kube-scheduler"
WHARFINGER = "wharfinger"
UNOBSERVED = "unobserved"
LONGEST_STEP = "wharfinger_event_loop_longest_step_seconds "
WHARF_RUN = f"{Path(sys.executable).with_name('wharf')} run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A scheduler, the schedulerName that it answers to, and how to start it, with True if it has to know PodGroups."""

    name: str
    answers_to: str
    start: Callable[[ControlPlane, bool], Program]


def contenders(product: str = WHARF_RUN) -> tuple[Contender, ...]:
    """kube-scheduler, Wharfinger (a command line that `--kubeconfig` and so on are added to), and Wharfinger without observation."""
    return (
        Contender(name=KUBE_SCHEDULER, answers_to="default-scheduler", start=_start_kube_scheduler),
        Contender(name=WHARFINGER, answers_to="wharfinger", start=partial(_start, product)),
        Contender(
            name=UNOBSERVED, answers_to="wharfinger", start=partial(_start, f"{sys.executable} -m tests.bench_cluster.unobserved run")
        ),
    )


def _start_kube_scheduler(cluster: ControlPlane, groups: bool) -> Program:
    return start_kube_scheduler(cluster, groups=groups)


def _start(product: str, cluster: ControlPlane, _groups: bool) -> Program:
    flags = ("--kubeconfig", cluster.kubeconfig, "--no-leader-elect", "--port", free_ports(1)[0])
    return cluster.run(WHARFINGER, *shlex.split(product), *flags, env={"PYTHONPATH": f"{ROOT / 'engine'}{os.pathsep}{ROOT}"})


def longest_step(wharf_run: Program) -> float:
    """The longest step of the event loop of `wharf run` in the last one to two minutes, in seconds."""
    port = wharf_run.command[wharf_run.command.index("--port") + 1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.removeprefix(LONGEST_STEP)) for line in lines if line.startswith(LONGEST_STEP))


def cpu_seconds(program: Program) -> float:
    """The CPU seconds of the process so far, in user and kernel mode."""
    fields = Path(f"/proc/{program.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_megabytes(program: Program) -> float:
    """The most memory the process has had resident so far."""
    for line in Path(f"/proc/{program.pid}/status").read_text("utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("Linux does not say how much memory a process has used")
