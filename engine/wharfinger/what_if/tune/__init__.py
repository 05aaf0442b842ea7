"""Searches the params and weights of policies that suit a cluster best; the chain decides every trial.

A trial is an edit of the policies' texts: what it tries is what a change of the files would do, and the winner is shown as that change.
Start with `search`; `tunables` finds the numbers, `workloads` places the pods, `objectives` measures the result.
"""
