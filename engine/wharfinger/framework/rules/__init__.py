"""The parts of a chain: rules of policies as plugins, the terms that score nodes, and the rules that apply to a pod.

`policy_rules` makes plugins of a compiled policy, `score_slot` keeps scores up to date, and `points` turns raw scores into points and
totals. Start with `pod_rules`.
"""
