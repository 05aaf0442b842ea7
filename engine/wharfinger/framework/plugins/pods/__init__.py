"""The plugins that look at other pods, with the counts per topology domain that they stand on.

Start with `inter_pod_affinity` and `pod_topology_spread`; `domain_watch` follows the counts for both.
"""
