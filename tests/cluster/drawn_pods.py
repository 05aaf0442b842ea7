"""Random pods with every kind of scheduling requirement, one after the other, and the changes of a small cluster between them.

The same seed draws the same pods. The cluster is small and full, so that pods wait, and evict others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.cluster import objects
from tests.cluster.devices import CLASS as GPU
from tests.cluster.devices import NUMA, device_class, resource_slice
from tests.cluster.mixed_pods import DISK, HOST, PREFERRED, REQUIRED, ZONE

Plain = dict[str, Any]

N_NODES = 14
APPS = ("web", "db", "batch", "api")
PRIORITIES = {"lowest": -10, "low": 100, "high": 1000, "highest": 5000}
PATIENT = "patient"
"""The class of pods that evict nobody."""
SANDBOX = "sandbox"
WAITING, BOUND = "waiting", "bound"
"""Storage classes: of volumes that are bound when a pod needs them, and of volumes that are bound to their claims at once."""
CSI = "disk.example.com"
IMAGES = {"a": 120_000_000, "b": 700_000_000, "c": 350_000_000}
FPGA, EXTENDED_GPU, HUGE_PAGES = "example.com/fpga", "example.com/gpu", "hugepages-2Mi"


class Drawn(NamedTuple):
    """A pod, and the objects that it names and that may exist already."""

    pod: Plain
    others: list[Plain]


class Drawing:
    """Draws a cluster and its pods from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._namespaces = ("default", f"shop-{seed}", f"lab-{seed}")  # those of the test before may not be gone yet
        self._prioritised = 0.85 if seed % 2 else 0.45
        self.leaving = 0.07 if seed % 2 else 0.25
        """The probability that a running pod is deleted after a decision."""

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return self.random.random() < probability

    def setting(self) -> Iterator[Plain]:
        """The objects that pods may name, and budgets."""
        for name, value in {**PRIORITIES, PATIENT: 3000}.items():
            never = {"preemptionPolicy": "Never"} if name == PATIENT else {}
            yield {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value, **never}
        for name in self._namespaces[1:]:
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"tier": name}}}
        for name, mode in ((WAITING, "WaitForFirstConsumer"), (BOUND, "Immediate")):
            storage = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode}
            yield {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **storage}
        overhead = {"handler": SANDBOX, "overhead": {"podFixed": {"cpu": "250m"}}}
        yield {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": SANDBOX}, **overhead}
        service = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": self._namespaces[1]}, "spec": service}
        yield device_class(extended=EXTENDED_GPU)
        for namespace in self._namespaces:
            spec = {"minAvailable": self.random.choice(["60%", 1, 2]), "selector": {"matchLabels": {"app": "db"}}}
            yield {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "db", "namespace": namespace},
                "spec": spec,
            }

    def nodes(self) -> Iterator[Plain]:
        """The nodes."""
        for number in range(N_NODES):
            labels = {ZONE: f"zone-{self.random.randrange(3)}", DISK: self.random.choice(["ssd", "hdd"]), "rank": self._rank()}
            if self.chance(0.1):
                del labels[ZONE]
            effect = self.random.choice(["NoSchedule", "PreferNoSchedule", "NoExecute"])
            taints = [{"key": "dedicated", "value": self.random.choice("ab"), "effect": effect}] if self.chance(0.2) else []
            taints += [{"key": "old", "effect": "PreferNoSchedule"}] if self.chance(0.1) else []
            size = {"cpu": self.random.choice("246"), "memory": self.random.choice(["4Gi", "8Gi", "12Gi"])}
            node = objects.node(_node(number), pods=self.random.choice([8, 12, 110]), labels=labels, taints=taints, **size)
            for amounts in (node["status"]["allocatable"], node["status"]["capacity"]):
                amounts.update({FPGA: "4"} if number % 3 == 0 else {}, **{HUGE_PAGES: "64Mi"} if number % 4 == 0 else {})
            if self.chance(0.4):
                there = [image for image in IMAGES if self.chance(0.5)]
                node["status"]["images"] = [{"names": [_image(image)], "sizeBytes": IMAGES[image]} for image in there]
            yield node

    def on_nodes(self) -> Iterator[Plain]:
        """The devices of nodes, and how many volumes of a driver they may have."""
        for number in range(0, N_NODES, 3):
            yield resource_slice(_node(number), self.random.choice([2, 4, 6]), model=self.random.choice(["a100", "t4"]))
        for number in range(0, N_NODES, 2):
            driver = {"name": CSI, "nodeID": "any", "allocatable": {"count": self.random.choice([1, 2])}}
            yield {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": _node(number)},
                "spec": {"drivers": [driver]},
            }

    def change_of_node(self) -> tuple[str, Plain]:
        """(a node, a merge patch for it)."""
        labels = {DISK: self.random.choice(["ssd", "hdd"]), "rank": self._rank()}
        cordoned = {"spec": {"unschedulable": self.chance(0.35)}}
        return _node(self.random.randrange(N_NODES)), self.random.choice([cordoned, cordoned, {"metadata": {"labels": labels}}])

    def pod(self, number: int) -> Drawn:
        """The pod of that number."""
        pick = self.random.choice
        amounts = {"cpu": f"{pick([50, 100, 300, 700, 1500])}m", "memory": f"{pick([64, 256, 900, 2000])}Mi"}
        labels = {"app": pick(APPS), "version": pick("12")}
        pod = objects.pod(f"pod-{number:04d}", namespace=pick(self._namespaces), labels=labels, **amounts)
        spec, others = pod["spec"], list[Plain]()
        self._resources(spec, spec["containers"][0])
        self._priority_and_nodes(spec)
        self._other_pods(spec)
        if self.chance(0.2):
            others += self._volume(pod, number)
        if self.chance(0.12):
            others += self._devices(pod, number)
        return Drawn(pod, others)

    def _resources(self, spec: Plain, container: Plain) -> None:
        requests = container["resources"]["requests"]
        if self.chance(0.1):
            requests.clear()
        if self.chance(0.08):
            requests["ephemeral-storage"] = self.random.choice(["10Gi", "60Gi"])
        for name, amounts, probability in ((FPGA, "123", 0.1), (EXTENDED_GPU, "12", 0.05), (HUGE_PAGES, ["32Mi"], 0.05)):
            if self.chance(probability):
                requests.setdefault("cpu", "50m")
                requests[name] = container["resources"].setdefault("limits", {})[name] = self.random.choice(amounts)
        if self.chance(0.3):
            container["image"] = _image(self.random.choice(list(IMAGES)))
        if self.chance(0.12):
            port = {
                "containerPort": 80,
                "hostPort": self.random.choice([8080, 9090]),
                "protocol": self.random.choice(["TCP", "TCP", "UDP"]),
            }
            container["ports"] = [port | ({"hostIP": self.random.choice(["10.0.0.1", "10.0.0.2"])} if self.chance(0.3) else {})]
        if self.chance(0.12):
            requested = {"requests": {"cpu": self.random.choice(["100m", "1", "2500m"])}}
            sidecar = {"restartPolicy": "Always"} if self.chance(0.5) else {}
            spec["initContainers"] = [{"name": "first", "image": "registry.k8s.io/pause:3.10", "resources": requested, **sidecar}]
        if self.chance(0.07):
            spec["runtimeClassName"] = SANDBOX
        if self.chance(0.07):
            spec["resources"] = {"requests": {"cpu": self.random.choice(["4500m", "5", "6"])}}

    def _priority_and_nodes(self, spec: Plain) -> None:
        if self.chance(self._prioritised):
            spec["priorityClassName"] = self.random.choice([*PRIORITIES, PATIENT])
        if self.chance(0.15):
            spec["nodeSelector"] = self.random.choice([{DISK: "ssd"}, {DISK: "hdd"}, {DISK: "tape"}, {ZONE: "zone-1"}])
        affinity: Plain = {}
        if self.chance(0.12):
            affinity[REQUIRED] = {"nodeSelectorTerms": [{"matchExpressions": self._some(self._expression)} for _ in range(self._few())]}
        elif self.chance(0.03):
            field = {"key": "metadata.name", "operator": "In", "values": [_node(self.random.randrange(N_NODES))]}
            affinity[REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        if self.chance(0.12):
            affinity[PREFERRED] = self._some(
                lambda: {"weight": self._weight(), "preference": {"matchExpressions": [self._expression()]}},
            )
        if affinity:
            spec["affinity"] = {"nodeAffinity": affinity}
        if self.chance(0.3):
            tolerations = [
                {"operator": "Exists"},
                {"key": "dedicated", "operator": "Exists"},
                {"key": "dedicated", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
                {"key": "old", "operator": "Exists", "effect": "PreferNoSchedule"},
            ]
            spec["tolerations"] = [self.random.choice(tolerations)]

    def _expression(self) -> Plain:
        operator = self.random.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        if operator in {"Gt", "Lt"}:
            return {"key": "rank", "operator": operator, "values": [self._rank()]}
        values = {DISK: ["ssd"], ZONE: ["zone-0", "zone-1"], "rank": list("12345")}
        key = self.random.choice(list(values))
        return {"key": key, "operator": operator, **({"values": values[key]} if operator.endswith("In") else {})}

    def _other_pods(self, spec: Plain) -> None:
        for side in ("podAffinity", "podAntiAffinity"):
            if self.chance(0.13):
                terms: Plain = {REQUIRED: self._some(self._term)} if self.chance(0.6) else {}
                if not terms or self.chance(0.4):
                    terms[PREFERRED] = self._some(lambda: {"weight": self._weight(), "podAffinityTerm": self._term()})
                spec.setdefault("affinity", {})[side] = terms
        if self.chance(0.25):
            keys = self.random.sample([ZONE, HOST, DISK], self._few())
            spec["topologySpreadConstraints"] = [self._constraint(key) for key in keys]

    def _constraint(self, key: str) -> Plain:
        action = self.random.choice(["DoNotSchedule", "ScheduleAnyway"])
        found: Plain = {"maxSkew": self.random.choice([1, 2, 3]), "topologyKey": key, "whenUnsatisfiable": action}
        found["labelSelector"] = self._selector()
        if action == "DoNotSchedule" and self.chance(0.3):
            found["minDomains"] = self.random.choice([2, 3, 4])
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if self.chance(0.3):
                found[field] = self.random.choice(["Honor", "Ignore"])
        if self.chance(0.2):
            found["matchLabelKeys"] = ["version"]
        return found

    def _term(self) -> Plain:
        found: Plain = {"labelSelector": self._selector(), "topologyKey": self.random.choice([ZONE, HOST, DISK])}
        if self.chance(0.25):
            found["namespaces"] = [self.random.choice(self._namespaces)]
        if self.chance(0.25):
            found["namespaceSelector"] = self.random.choice([{}, {"matchLabels": {"tier": self.random.choice(self._namespaces)}}])
        if self.chance(0.3):
            found[self.random.choice(["matchLabelKeys", "mismatchLabelKeys"])] = ["version"]
        return found

    def _selector(self) -> Plain:
        if self.chance(0.8):
            return {"matchLabels": {"app": self.random.choice(APPS)}}
        operator = self.random.choice(["In", "NotIn"])
        return {"matchExpressions": [{"key": "app", "operator": operator, "values": self.random.sample(APPS, 2)}]}

    def _volume(self, pod: Plain, number: int) -> list[Plain]:
        """The volumes that a pod may get, and its claim; the claim may be missing, shared with other pods, or satisfied by no volume."""
        namespace = pod["metadata"]["namespace"]
        kind = self.random.choice(["own", "own", "any", "zone", "once", "csi", "missing", "too large"])
        name = f"{kind}-{self.random.randrange(3)}" if kind in {"zone", "once", "csi"} else f"claim-{number}"
        pod["spec"]["volumes"] = [{"name": "files", "persistentVolumeClaim": {"claimName": name}}]
        storage = "900Gi" if kind == "too large" else "1Gi"
        mode = "ReadWriteOncePod" if kind == "once" else "ReadWriteOnce"
        wanted: Plain = {"accessModes": [mode], "storageClassName": WAITING, "resources": {"requests": {"storage": storage}}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": namespace}, "spec": wanted}
        if kind == "missing":
            return []
        if kind == "too large":
            return [claim]
        volumes = []
        if kind in {"own", "any"}:
            for part in range(self._few()):
                nodes = [_node(each) for each in self.random.sample(range(N_NODES), self.random.choice([1, 3]))]
                volume = _volume(f"{name}-{part}", mode, {"local": {"path": "/files"}}, HOST, nodes)
                volume["metadata"]["labels"] = {"claim": name}
                volume["spec"]["capacity"]["storage"] = self.random.choice(["1Gi", "2Gi"])
                volumes.append(volume)
            if kind == "own":
                wanted["selector"] = {"matchLabels": {"claim": name}}
        else:
            full_name = f"{name}-{namespace}"
            source = {"csi": {"driver": CSI, "volumeHandle": full_name}} if kind != "zone" else {"hostPath": {"path": "/files"}}
            volume = _volume(full_name, mode, source, ZONE, [f"zone-{number % 2}"] if kind == "zone" else [])
            volume["spec"] |= {"storageClassName": BOUND, "claimRef": {"namespace": namespace, "name": name}}
            wanted |= {"storageClassName": BOUND, "volumeName": full_name}
            volumes.append(volume)
        return [*volumes, claim]

    def _devices(self, pod: Plain, number: int) -> list[Plain]:
        """The claim of a pod for devices."""
        pick = self.random.choice
        exactly = pick([{"count": 1}, {"count": 2}, {"allocationMode": "All"}])
        if self.chance(0.3):
            exactly["selectors"] = [{"cel": {"expression": 'device.attributes["gpu.example.com"].model == "a100"'}}]
        request: Plain = {"name": "gpu", "exactly": {"deviceClassName": GPU, **exactly}}
        if self.chance(0.25):
            listed = [{"name": name, "deviceClassName": GPU, "count": count} for name, count in (("three", 3), ("one", 1))]
            request = {"name": "gpu", "firstAvailable": listed}
        wanted: Plain = {"devices": {"requests": [request]}}
        if self.chance(0.3):
            wanted["devices"]["constraints"] = [{"requests": ["gpu"], "matchAttribute": NUMA}]
        metadata = {"name": f"devices-{number}", "namespace": pod["metadata"]["namespace"]}
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": metadata["name"]}]
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        return [{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": wanted}]

    def _some(self, one: Any) -> list[Plain]:
        return [one() for _ in range(self._few())]

    def _few(self) -> int:
        return self.random.choice([1, 1, 2])

    def _weight(self) -> int:
        return self.random.randrange(1, 101)

    def _rank(self) -> str:
        return str(self.random.randrange(10))


def _node(number: int) -> str:
    return f"node-{number:02d}"


def _image(name: str) -> str:
    return f"registry.k8s.io/{name}:1"


def _volume(name: str, mode: str, source: Plain, key: str, values: list[str]) -> Plain:
    """A volume that can be used on nodes with these values of a label; without values, on all nodes."""
    spec: Plain = {"capacity": {"storage": "1Gi"}, "accessModes": [mode], "storageClassName": WAITING, **source}
    if values:
        here = {"key": key, "operator": "In", "values": values}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
