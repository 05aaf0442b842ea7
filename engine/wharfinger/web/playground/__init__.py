"""The playground: a page for writing policies, running their tests, and trying them on a cluster.

`workbench` has the routes and their responses, `clusters` the clusters to choose from, and `trial` the effect of a policy on one of them.
The page itself is in `static`, and its editor is built from editors/playground. Start with `workbench`.
"""
