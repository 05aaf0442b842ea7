"""`/ui`: what the scheduler does, as pictures. Read-only; the page brings everything it needs with it and asks nobody else."""
