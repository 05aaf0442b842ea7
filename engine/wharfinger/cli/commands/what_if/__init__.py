"""Try changes first.

wharf dry-run --snapshot cluster.yaml --policy policies/
"""
