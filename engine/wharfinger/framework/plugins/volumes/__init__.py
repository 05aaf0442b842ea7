"""The plugins for a pod's volumes.

`volume_claims` reads the claims for all of them; `attached_volumes` counts the volumes that drivers attach to each node.
"""
