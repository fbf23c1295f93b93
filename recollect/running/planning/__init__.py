"""Before and around the training: memory, speed, forecast, order, benchmark."""
