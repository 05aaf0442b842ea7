"""The scheduling framework: extension points, the chain of plugins and policies, and the cycle that decides.

`extension` has the base classes of plugins, `plugins` the built-in plugins of Kubernetes, `rules` what policies add to them, and `chain`
assembles both. Start with `evaluation.cycle`, where a pod and a snapshot become a decision.
"""
