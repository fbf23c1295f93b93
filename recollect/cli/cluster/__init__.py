"""The command line for sweeps on many machines."""
