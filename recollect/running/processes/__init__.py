"""Several processes that train one folder: on a CPU, processes of one thread each use the cores
better than threads do.

They share nothing but the store, whose claims keep them apart. Whichever of them dies, and
whenever, the next start heals it. A run has as many threads as its specification gives it, however
many processes there are, so no number depends on that.
"""
