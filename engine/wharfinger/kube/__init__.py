"""The API server over HTTP, as the ports of `framework.ports`: connections, lists and watches, bindings, events, the lease.

`connection` sends requests, `reflector` keeps kinds of objects in step, `binder` and `writes` write, `refusals` are the errors. Start with
`api_server`, which puts them together.
"""
