"""Policies while a scheduler runs: where they come from, which version of each decides, and how a new set takes over.

    sources ──texts──▶ store ──▶ candidate: parse, check, test, compile, try ──▶ active: which version of which policy decides
                                                                                    │
    scheduler ◀── one immutable value, between two cycles ──────────────────────────┘──▶ last known good, on disk

A text that is refused changes only its own status: its former version and all other policies stay in force. Start with
`store.py`. `policy_tests.py` runs the `test` blocks, which `wharf test` does too; `budget.py` suspends policies that take too much time.
"""
