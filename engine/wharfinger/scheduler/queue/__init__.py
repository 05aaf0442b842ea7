"""The queue of pods and groups: which is tried next, and which events wake those that fit on no node.

Start with `scheduling_queue`; `sub_queues` has where a pod can be, `hints` say which change of the cluster may help it.
"""
