"""Wharfinger: Kubernetes scheduling decided by `.policy` files."""
