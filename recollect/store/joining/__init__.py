"""Several stores as one: where they lie, whether their results agree, and copying between them."""
