"""The process of `wharf run`: its settings, and the place where scheduler, API server, telemetry and web server are put together.

Start with `serve`, the whole life of the process, then `compose`, the running scheduler on one connection. Every setting is one field in
`settings`. `policies` connects the sources of policies, `observation` logs and metrics, and `pages` and `live_page` the web server.
"""
