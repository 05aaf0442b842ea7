"""Policies while a scheduler runs: their sources, the version of each that is in force, and the change to a new set.

    sources ──texts──▶ store ──▶ candidate: parse, check, test, compile, try ──▶ active: which version of which policy decides
                                                                                    │
    scheduler ◀── one immutable value, between two cycles ──────────────────────────┘──▶ last known good, on disk

A text that is refused changes only its own status: its former version and all other policies stay in force. Start with
`store.py`. `policy_tests.py` runs the `test` blocks, which `wharf test` does too; `budget.py` suspends policies that take too much time,
or that look at too many placed pods, which `scans.py` counts.
"""
