"""What nodes really use: queries that policies ask, answered in the background, so that no decision ever waits for the network."""
