"""Ways in: the command line, and the checks and arguments that the clients share."""
