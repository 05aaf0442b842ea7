"""Pods and groups that wait: which is tried next, and what wakes those that fit nowhere.

Start with `scheduling_queue`; `places` are where a pod can be, `hints` say which change of the cluster may help it.
"""
