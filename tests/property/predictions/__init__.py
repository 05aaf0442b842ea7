"""What-if answers compared with what a scheduler on a cluster in memory does then, over random clusters with much that scheduling reads."""
