"""The host CPU: how each instruction is turned into work."""
