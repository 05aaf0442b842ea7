"""Plans of moves of running pods: how they are found, and how they are carried out.

Start with `plan`. `movable` selects the pods that may move, `draft` tries moves on a copy of the cluster, `gains` computes their gain,
`consolidation` and `rearrangement` search those that free nodes or GPUs. `plan_execution` carries out a plan on a running cluster, where
`move_check` says if the next moves are still possible and worth it.
"""
