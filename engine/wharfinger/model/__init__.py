"""The cluster as values and columns: Kubernetes objects, files they are read from, columns of nodes and pods, and the cluster's state.

`objects` has the structs of Kubernetes objects and values derived from one object, `reading` reads files and manifests, `columns` has the
NumPy arrays, `state` the live state and its snapshots; `attributes` lists the attributes of policies. Start with `state.cluster_state`.
"""
