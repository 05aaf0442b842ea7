"""Run.

wharf run --policy policies/
"""
