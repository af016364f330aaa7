"""Passes and pipelines: what a pass is, how rewrites are numbered, how pipelines run, dump, time and check."""
