"""Controllers for the custom resources: they create the objects for a resource and write its status.

Each controller takes keys from a work queue and reconciles one object at a time; only the leader's controllers work. Start with `compose`,
then `controller`, then `policy_app`.
"""
