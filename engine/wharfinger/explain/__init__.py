"""Why a pod goes to a node, or to none: reports made from a decision, as values and as text.

Everything here is a pure function of a decision, its snapshot and its policies; nothing waits, writes or knows a scheduler. The package
stands below `policies`, whose tests say with the same words why an expectation fails. Start with `explanation.py`; `explained_pod.py` adds
what would have to change for a pod that people ask about.
"""
