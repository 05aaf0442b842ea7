"""Policies while the scheduler runs: where they come from, which version of each holds, and how a new set takes over.

    sources ──texts──▶ store ──▶ candidate: parse, check, test, compile, try ──▶ choosing: which version of which policy holds
                                                                                    │
    scheduler ◀── one immutable value, between two cycles ──────────────────────────┘──▶ last known good, on disk

A text that is refused changes nothing but its own status: the version before it goes on, and so do all other policies.
"""
