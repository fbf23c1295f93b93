"""Numerical operations of the mixers. Each folder is an operation: its plain form, the kernels that
must equal it, and in its `__init__.py` the choice between them.
"""
