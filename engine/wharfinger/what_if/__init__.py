"""Predictions for other pods, nodes or policies: diff, capacity, drain, rebalance, tune.

Every answer comes from the chain that schedules, on a copy of the cluster's state. One module per question; `supposed_changes` and
`leaving_pods` have what several need. Start with the module named like the command.
"""
