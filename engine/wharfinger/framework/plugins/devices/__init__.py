"""Devices of dynamic resource allocation (DRA): which devices the claims of a pod get on each node.

`dynamic_resources` is the plugin DynamicResources, and `gpu_shares` the plugin for shares of GPUs. `pod_claims` reads the claims of a pod,
`requests` prepares their requests, `device_rule` keeps a verdict per node, and `search` finds the devices of one node. `cel` evaluates the
selectors. `extended_resources` makes claims of extended resources, `class_totals` counts devices for scores, and `shortage` explains
rejections. Start with `dynamic_resources`.
"""
