"""Training one sweep on many machines: an immutable plan, a spool per attempt, one collector."""
