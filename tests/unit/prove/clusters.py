"""Random small clusters that a policy can distinguish: made of the texts and numbers that it is written with."""

import random
import re

from wharfinger.language.test_steps import START
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.policies.scenario import node_manifest, pod_manifest

GIBI = 1 << 30


class Situations:
    """Clusters with a pod to be placed, drawn for one text of a policy."""

    def __init__(self, text, seed):
        self.random = random.Random(seed)
        keys = set(re.findall(r'(?:labels|annotations)\["([^"]+)"\]', text)) | {"topology.kubernetes.io/zone", "app"}
        self.keys = sorted(keys)
        self.texts = sorted(set(re.findall(r'"([\w-]+)"', text.split("\ntest ")[0])) | {"x", "web"})
        self.extended = sorted(set(re.findall(r'(?:requests|free|allocatable)\["([^"]+)"\]', text)))
        self.metrics = re.findall(r"^metric (\w+)", text, re.MULTILINE)

    def draw(self):
        """A snapshot and a pod."""
        state = ClusterState()
        names = [f"n{index}" for index in range(self.random.randint(1, 3))]
        for name in names:
            state.add_node(decode.convert(node_manifest(name, self._node()), objects.Node))
        for index in range(self.random.choice((0, 1, 2, 4))):
            fields = self._pod()
            manifest = pod_manifest(f"r{index}", fields, node=self.random.choice(names))
            state.add_pod(decode.convert(manifest, objects.Pod))
        for metric in self.metrics:
            samples = {
                name: (self._share(), START.timestamp() - self.random.choice((0, 0, 0, 600)))
                for name in names
                if self.random.random() < 0.8
            }
            state.set_metric(metric, samples)
        pod = PodView(decode.convert(pod_manifest("web", self._pod()), objects.Pod))
        return state.snapshot(START.timestamp()).detach(), pod

    def _share(self):
        return self.random.choice((0.0, 0.3, 0.59, 0.6, 0.85, 0.9, 0.95, 1.0))

    def _labels(self):
        return {key: self.random.choice(self.texts) for key in self.keys if self.random.random() < 0.5}

    def _node(self):
        fields = {"cpu": self.random.choice(("4", "8", "16")), "memory": str(self.random.choice((8, 32)) * GIBI), "labels": self._labels()}
        fields["resources"] = {key: str(self.random.choice((0, 1, 1000, 2000))) for key in self.extended if self.random.random() < 0.7}
        if self.random.random() < 0.3:
            fields["taints"] = [self.random.choice(("k:PreferNoSchedule", "dedicated=team:NoSchedule"))]
        return fields

    def _pod(self):
        requests = {
            "cpu": f"{self.random.choice((0, 500, 2000, 7200, 7600))}m",
            "memory": str(self.random.choice((0, 1, 4, 28, 30)) * GIBI),
        }
        requests |= {key: str(self.random.choice((1, 300, 1000))) for key in self.extended if self.random.random() < 0.5}
        fields = {
            "namespace": self.random.choice(("default", "kube-system", "team-a")),
            "labels": self._labels(),
            "annotations": {key: self.random.choice(self.texts) for key in (*self.keys, "wants") if self.random.random() < 0.5},
            "requests": requests,
            "priority": self.random.choice((0, 0, 999, 1000, 1001, 99999, 100000, 2000000000)),
            "qos": self.random.choice(("Guaranteed", "Burstable")),
        }
        if self.random.random() < 0.4:
            fields["tolerations"] = ["dedicated=team:NoSchedule"]
        if self.random.random() < 0.2:
            fields["owner"] = {"kind": "DaemonSet", "name": "d"}
        return fields
