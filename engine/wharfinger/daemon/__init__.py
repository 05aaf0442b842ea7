"""The process of `wharf run`: its settings, and the place where scheduler, API server, telemetry and web server are put together.

`serve` is the whole life of the process, `compose` the running scheduler on one connection. Every setting is one field in `settings`.
"""
