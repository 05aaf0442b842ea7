"""Answers before the fact: what would happen if pods, nodes or policies were others.

Every answer comes from the chain that schedules, on a copy of the cluster's state. One module per question; `leaving_pods` has what
several need. Start with the module named like the verb.
"""
