"""One sweep on many machines: a plan that never changes, a spool per attempt, one collector."""
