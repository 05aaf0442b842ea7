"""The binding cycle, from a decision to a bound pod: permits, volumes, devices, and the members of a group together.

Start with `cycle`.
"""
