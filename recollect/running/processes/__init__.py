"""Several processes that train one folder. On a CPU, processes with one thread each use the cores
better than threads do.

The processes share only the store, whose claims keep them from training the same run. If any of
them dies, at any time, the next start recovers its work. The number of threads of a run follows
from its specification and not from the number of processes, so no result depends on the latter.
"""
