"""recollect with one constant changed, to measure what it is worth:

    python bench/with_constant.py recollect.running.planning.memory.FULL=48 run SWEEP --out DIR

The constant is changed before any other module reads it, in this process alone. The code that rows
name is the code on the disk, so only constants that change no number may be changed.
"""

import sys
from importlib import import_module


def main() -> None:
    (constant, value), arguments = sys.argv[1].split("="), sys.argv[2:]
    module, _, name = constant.rpartition(".")
    owner = import_module(module)
    setattr(owner, name, type(getattr(owner, name))(value))
    sys.argv[1:] = arguments
    import_module("recollect.cli.app").main()


if __name__ == "__main__":
    main()
