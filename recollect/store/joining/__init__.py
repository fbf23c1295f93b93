"""Several stores as one: finding them, comparing their results, and copying between them."""
