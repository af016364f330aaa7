"""Which bytes each value lives in."""
