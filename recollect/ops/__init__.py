"""The numerics under the mixers. A folder is an operation: its plain form, the kernels that must
equal it, and in its `__init__.py` the choice between them.
"""
