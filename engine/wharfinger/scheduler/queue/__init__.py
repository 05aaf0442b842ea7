"""The queue of pods and groups: which is tried next, and which events wake those that fit on no node.

Start with `scheduling_queue`. `sub_queues` has where a pod can be, `hints` decides which change of the cluster may help it, and
`queued_groups` keeps the members of groups together.
"""
