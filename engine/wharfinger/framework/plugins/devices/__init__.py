"""Devices of dynamic resource allocation: which of them a pod's claims get, and where."""
