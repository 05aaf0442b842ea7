"""Devices of nodes: GPUs, network cards and whatever else is handed out piece by piece.

`device` has the record of one device, `device_table` the columns of all of them, `whole_counts` the devices of clusters that only say how
many there are. Start reading at `device`.
"""
