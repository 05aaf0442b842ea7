"""Plans of moves of running pods: which are worth it, and how they are carried out.

Start with `plan`. `movable` says which pods may move, `draft` tries moves on a copy of the cluster, `gains` says what they are worth,
`consolidation` and `rearrangement` search those that free nodes or GPUs, and `carry_out` does a plan on a running cluster.
"""
