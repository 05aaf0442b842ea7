"""A placement of all pods where the queue leaves some over, or the proof that there is none.

Start with `search`: it chooses what is rearranged, runs the solver, and checks the result with the chain. `model` is the model for CP-SAT
and its quantities, and `smaller_tasks` has the regions that are rearranged and the classes that prove, where there are many nodes.
"""
