"""The driver: a module goes in, an executable comes out."""
