"""Based as Zoology stacks it: options only, since its layers are those of other mixers."""
