"""Based as Zoology stacks it: options alone, its layers are those of other rooms."""
