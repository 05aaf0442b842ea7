"""Answers before the fact: what would happen if pods, nodes or policies were others.

Every answer comes from the chain that schedules, on a copy of the cluster's state. One module per question; `supposed_changes` and
`leaving_pods` have what several need. Start with the module named like the verb.
"""
