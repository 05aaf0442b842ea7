"""A log of decisions with everything they depend on, so that each can be made again: written by the live scheduler, read by `wharf replay`.

A log is JSON lines in files. Every file begins with the whole state of the cluster at that moment (a checkpoint) and continues with every
change to it and every decision, in the order in which they happened, so any file can be replayed without those before it. Start with
`lines.py`.
"""
