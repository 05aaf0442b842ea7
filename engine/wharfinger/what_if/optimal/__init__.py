"""A placement of all pods where the queue leaves some over, or the proof that there is none.

Start with `search`: it chooses what is rearranged, has it solved, and asks the chain. `regions` says which nodes are worth it, `model` is
the model for CP-SAT, `relaxation` a smaller one that proves, and `device_room` counts devices for both.
"""
