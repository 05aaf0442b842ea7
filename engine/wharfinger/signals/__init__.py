"""Measurements of nodes: the queries that policies declare, answered in the background, so that no decision waits for the network.

`query` collects what has to be asked, `sources` has the readers of Prometheus and of the Metrics API, `mapping` turns series into samples
by node. Start with `refreshing`.
"""
