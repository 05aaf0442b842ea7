"""Requests to an application without a network; the client can have any address."""

import asyncio

import httpx
from prometheus_client import CollectorRegistry

from wharfinger.web.app import Checks, application

NEAR, FAR = ("127.0.0.1", 50000), ("192.0.2.7", 50000)


class Asking:
    """Sends requests to one application."""

    def __init__(self, app, client):
        self._transport = httpx.ASGITransport(app, client=client, raise_app_exceptions=False)

    def request(self, method, path, **more):
        async def ask():
            async with httpx.AsyncClient(transport=self._transport, base_url="http://127.0.0.1:10261") as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())

    def get(self, path, **more):
        return self.request("GET", path, **more)


def asking(checks=None, registry=None, debug=None, extra_routes=(), client=NEAR):
    return Asking(application(checks or Checks(), registry or CollectorRegistry(), debug, extra_routes), client)
