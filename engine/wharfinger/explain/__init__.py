"""Explanations of decisions, as values and as text: the reasons for the chosen node, or for none.

Everything here is a pure function of a decision, its snapshot and its policies. Nothing waits, writes or uses a scheduler. The package is
below `policies`, whose tests use the same texts for failed expectations. Start with `explanation.py`; `explained_pod.py` adds what would
have to change for a pod that people ask about.
"""
