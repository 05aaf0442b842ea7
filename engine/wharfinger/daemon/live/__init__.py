"""What the live page shows of a running scheduler."""
