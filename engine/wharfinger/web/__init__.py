"""The HTTP server of the running scheduler: health, metrics, pages about policies and decisions, the admission webhook.

The modules know only small protocols of what they show, never the scheduler itself. Start with `app`; `ui` is the live page.
"""
