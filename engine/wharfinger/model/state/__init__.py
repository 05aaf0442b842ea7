"""The state of the cluster, kept up to date by watch events and by the scheduler's own decisions, and snapshots of it.

`cluster_state.ClusterState` is what the scheduler changes, `snapshot.Snapshot` what a decision reads; both use the `tables`. Start with
`cluster_state`.
"""
