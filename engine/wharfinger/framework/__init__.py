"""The scheduling framework: extension points, the chain of plugins and policies, and the cycle that decides.

`extension` says what a plugin may implement, `chain` which plugins and policies decide, and `plugins` holds those of Kubernetes. Start with
`evaluation.cycle`, where a pod and a snapshot become a decision.
"""
