"""`/ui`: the live page of the scheduler. Read-only; the page brings all its files and connects to no other server."""
