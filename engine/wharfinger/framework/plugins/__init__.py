"""Kubernetes' own filters and scores, one class per plugin; `framework.registry` finds them in this package and its folders.

Plugins that share code have a module or a folder together: `pods` counts pods per topology domain, `volumes` reads claims. Start with
`taint_toleration`, which is short and both filters and scores.
"""
