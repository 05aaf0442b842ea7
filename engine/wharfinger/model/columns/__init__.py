"""The cluster as columns: one NumPy array per attribute with one value per node, and counts of pods per node and domain.

`arrays` has the shared row axis, strings as codes and the columns of labels; `node_table`, `resource_table` and `metric_table` are the
columns of nodes; `pod_table` has the placed pods; `selection` counts pods per node and `domains` per topology domain. Start with `arrays`.
"""
