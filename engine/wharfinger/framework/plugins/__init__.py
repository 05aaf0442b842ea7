"""Kubernetes' own constraints and scores, one file each; `framework.registry` finds them."""
