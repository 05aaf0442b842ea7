"""Measurements of nodes: the queries that policies declare, answered in the background, so that no decision waits for the network.

`query` collects the queries to send, `sources` reads the Metrics API and, by `prometheus`, Prometheus servers, `mapping` turns series into
samples by node. Start with `refreshing`.
"""
