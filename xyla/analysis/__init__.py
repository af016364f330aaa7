"""Questions about modules, answered without changing them."""
