"""Measures the live scheduler and kube-scheduler: `python -m tests.bench_cluster --help`."""
