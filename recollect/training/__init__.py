"""P same-shaped runs trained as one population."""
