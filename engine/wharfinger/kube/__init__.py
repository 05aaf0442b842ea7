"""The API server over HTTP, as the ports of `framework.ports`: connections, lists and watches, bindings, events, the lease.

`connection` sends requests, `reflector` lists and watches, `wire` decodes, `writes` binds pods and writes the rest. The exceptions are in
`api_errors`. Start with `api_server`, which puts them together.
"""
