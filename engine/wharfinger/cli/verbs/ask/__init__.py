"""Try before it happens.

wharf dry-run --snapshot cluster.yaml --policy policies/
"""
