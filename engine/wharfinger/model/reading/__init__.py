"""Clusters and manifests read from files: YAML and JSON text, Lists, the snapshot format, workloads expanded to pods.

`files.read_objects` is the entry; it splits files into `documents`, and `decode` turns each item into its struct. `workloads` expands
Deployments, Jobs and the like to the pods that their controllers would create, with the defaults of `admission`.
"""
