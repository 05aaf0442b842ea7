"""The binding cycle, from a decision to a bound pod: permits, volumes, devices, and the members of a group together.

Start with `cycle`, which has the steps. `permits` waits for Permit plugins and the permits of policies, `claims` writes the claims for
devices and volumes, and `group_binding` lets the members of a group wait for each other.
"""
