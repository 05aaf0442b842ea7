"""What runs the pure core: simulation, policy tests, explanations, generated and traced clusters. No network here."""
