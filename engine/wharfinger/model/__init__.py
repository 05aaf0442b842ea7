"""The cluster as values and columns: quantities, objects, pods as scheduling sees them, and what the state of a cluster is built from."""
