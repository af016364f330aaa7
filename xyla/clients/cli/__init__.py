"""The `xyla` command."""
