"""Small real programs, and the demo that compiles and runs them."""
