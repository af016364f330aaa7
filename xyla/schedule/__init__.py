"""In which order the instructions of a module run, and on which streams."""
