"""What tests and benchmarks share: the shared corpus, the RUN-line runner, the input mutator."""
