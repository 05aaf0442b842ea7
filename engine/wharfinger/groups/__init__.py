"""Groups of pods that are placed together: all members that must be, close together, or none.

A group comes from a PodGroup of Kubernetes, from the labels of the coscheduling plugin, or from the `group` of a policy. `terms` defines
the requirements of a group and the possible results; `placing` finds them, by `exact` where placing one member after the other finds
nothing.
"""
