"""Keys of the labels that Kubernetes sets on nodes (https://kubernetes.io/docs/reference/labels-annotations-taints/)."""

from __future__ import annotations

HOSTNAME = "kubernetes.io/hostname"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"

GENERAL = {BETA_ZONE: ZONE, BETA_REGION: REGION}
"""The labels that replaced deprecated ones."""
