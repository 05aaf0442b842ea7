"""The state of the cluster, kept up to date by watch events and by the scheduler's own decisions; snapshots and copies of it.

The scheduler changes a `cluster_state.ClusterState`; a decision reads a `snapshot.Snapshot`; both use the `tables` and the `object_store`.
`node_reader` is for what is read from nodes one by one, such as their `device_states`.
Start with `cluster_state`.
"""
