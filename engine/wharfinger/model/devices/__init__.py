"""Devices of nodes: GPUs, network cards and other hardware that is allocated in pieces.

`device` has the record of one device and the sources of devices: from drivers (`pools`, `allocated`, `sliced_devices`), from counts of
whole devices (`counted_devices`), or from shares of GPUs (`shared_gpus`). `device_table` has the columns of all devices, `held_devices`
finds the holders of the devices of one node. Start reading at `device`.
"""
