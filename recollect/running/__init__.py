"""Training of planned sweeps: engine, workers, packs, processes."""
