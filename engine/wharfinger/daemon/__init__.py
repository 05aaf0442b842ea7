"""The process that runs: its settings, and the one place where the scheduler, the API server, telemetry and the web meet."""
