"""The exact search for a group's place in one domain, over all combinations of members, with a budget.

`group_model` turns what the filters of Kubernetes say about members into rules on counts, `packing` solves them, and `relaxations` are the
smaller models that prove that nothing fits. Start with `search`.
"""
