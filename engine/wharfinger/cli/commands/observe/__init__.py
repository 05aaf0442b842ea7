"""Observe.

wharf explain pod shop/web-0 --snapshot cluster.yaml
"""
