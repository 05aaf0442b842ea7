"""The plugins InterPodAffinity and PodTopologySpread, and the counts of placed pods per topology domain that they use.

Start with `inter_pod_affinity` and `pod_topology_spread`, which are the extension points; the latter counts by `spread_counts`.
"""
