"""The plugins for a pod's volumes.

`volume_binding` has VolumeBinding and VolumeZone, `volume_limits` VolumeRestrictions and NodeVolumeLimits. `volume_claims` reads the
claims for all of them, and `attached_volumes` counts the volumes that drivers attach to each node. Start with `volume_binding`.
"""
