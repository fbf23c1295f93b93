"""The numerics under the mixers: a plain reference for each operation and, beside it, the kernel
that must equal it.
"""
