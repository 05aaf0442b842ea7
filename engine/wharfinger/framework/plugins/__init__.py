"""Kubernetes' own constraints and scores, each plugin one class; `framework.registry` finds them, here and in the folders.

What several plugins share lives with them: `pods` counts pods per topology domain, `volumes` reads claims, `resources` reads amounts. Start
with `taint_toleration`, which is short and both filters and scores.
"""
