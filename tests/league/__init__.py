"""The league: how many GPUs of a real cluster policies leave unallocated, by the protocol of a paper.

`protocol` says who arrives in which order, `policies/` has a file for each way to place them, `play` places the pods by the chain,
`reference` says what the paper's formulas choose, and `python -m tests.league` prints the table.
"""
