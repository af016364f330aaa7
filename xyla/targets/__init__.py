"""One folder a target; targets never import one another."""
