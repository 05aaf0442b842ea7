"""What the running scheduler serves over HTTP: health, metrics, a look inside. Knows only small protocols of what it reports on."""
