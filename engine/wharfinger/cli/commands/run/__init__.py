"""Run the scheduler.

wharf run --policy policies/
"""
