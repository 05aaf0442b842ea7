"""The evaluation of one pod template over all nodes, kept up to date with the cluster.

Start with `cycle`: `decide` is the definition, `Decider` gives the same decisions from kept results. `kept_result` holds the results of
`filtering` and `scoring` for every node; `decision` and `diagnosis` read them.
"""
