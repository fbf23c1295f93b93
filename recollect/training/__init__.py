"""Training of P runs of the same shape as one population."""
