"""The sweep, its undisturbed rows and Slurm, for all tests here."""

from cluster_runs import site, submitted, sweep, undisturbed

__all__ = ["site", "submitted", "sweep", "undisturbed"]
