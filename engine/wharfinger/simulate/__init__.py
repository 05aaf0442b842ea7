"""Scheduling without a cluster to bind in: the scheduler's own decisions on nodes and pods from files, traces or generators.

Start with `dry_run.py`; `placing.py` places the pods. `cluster.py` reads files, `workloads.py` generates nodes and pods and `openb/` is the
trace that ships with the package. `replay.py` makes the decisions of a decision log again.
"""
