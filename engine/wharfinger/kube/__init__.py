"""The API server: connections, lists and watches, bindings, events, the lease. What the ports of `framework.ports` look like over HTTP."""
