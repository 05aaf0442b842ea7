"""The live scheduler: watch events come in, pods are decided about one at a time, bindings go out.

    API server ──events──▶ event handlers ──▶ state and queue ──▶ cycle ──▶ binding ──▶ API server
                                                                    │
                                                                    └─ no node fits: status, preemption, back to the queue

Start with `scheduler.py`, which composes the parts and runs the loop; the parts know the API server through `ports.py` alone.
`decision_log/` records decisions with everything they depend on; `live_answers.py` answers questions about the running
scheduler.
"""
