"""Parity with kube-scheduler 1.36: the answers of its plugins to questions about frozen clusters, and those of Wharfinger."""
