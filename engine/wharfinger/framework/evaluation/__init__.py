"""The evaluation of one pod template over all nodes, kept up to date with the cluster.

Start with `cycle`: `decide` is the definition, `Decider` gives the same decisions from kept results. `kept_result` holds what `filtering`
and `scoring` say of every node, and `decision` and `diagnosis` read it.
"""
