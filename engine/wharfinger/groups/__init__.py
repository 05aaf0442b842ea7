"""Groups of pods that are placed together: all members that must be, close together, or none.

A group comes from a PodGroup of Kubernetes, from the labels of the coscheduling plugin, or from the `group` of a policy. `terms` says what
holds for it and what the answers are; `placing` finds them, by `exact` where placing one member after the other finds nothing.
"""
