"""Parity with kube-scheduler 1.36: its own plugins' answers to questions about frozen clusters, and ours."""
