"""From a planned sweep to finished runs: engine, workers, packs, processes."""
