"""Metrics, logs and traces of the process.

`declarations` lists every metric and `metrics` holds them; `logs` writes lines. The other modules count and log what happens: start with
`scheduling` for attempts at pods.
"""
