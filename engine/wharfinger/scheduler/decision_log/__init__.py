"""A log of decisions with everything they depend on, so that each can be made again: written by the live scheduler, read by `wharf replay`.

A log is JSON lines in files. Every file begins with the whole state of the cluster at that moment (a checkpoint). Every change to it and
every decision follow, in the order in which they happened. So any file can be replayed without those before it. Start with `lines.py`.
"""
