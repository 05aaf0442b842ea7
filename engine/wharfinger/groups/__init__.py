"""Groups of pods that are placed together: all members that must be, close together, or none.

A group comes from a PodGroup of Kubernetes, from the labels of the coscheduling plugin, or from the `group` of a policy. `terms` defines
the requirements of a group and the possible results. `membership` finds the group of each pod, `placing` searches a placement, with
`exact` if placing one member after the other finds none, and `preempting` searches victims. Start with `terms`, then `placing`.
"""
