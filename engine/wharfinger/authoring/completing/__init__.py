"""Completion: what may be written at a place, outside of quotes and inside, and how the function there is called.

Start with `completion`.
"""
