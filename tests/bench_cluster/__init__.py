"""Measuring the live scheduler beside kube-scheduler: `python -m tests.bench_cluster --help`."""
