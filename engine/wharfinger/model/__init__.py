"""The cluster as values and columns: objects, files they are read from, columns of nodes and pods, and the state made of them.

`objects` has Kubernetes' objects and what is derived from one of them, `reading` files and manifests, `columns` the NumPy arrays,
`state` the live state and its snapshots; `attributes` is the list of what policies may name. Start with `state.cluster_state`.
"""
