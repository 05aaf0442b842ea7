"""Drains: where the pods of some nodes would go, and which of them could not leave.

Start with `plan`, which empties the nodes in steps; its answer is in `answer`. `moving_pods` has the pods that leave or wait: it marks them
as deleted, removes them, and creates them again as their controllers do. `attempts` tries those that wait in the order of
`supposed_queue`, and `preemption` makes room for them.
"""
