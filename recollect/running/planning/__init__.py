"""Before and around the training: memory, speed, forecast, priorities, benchmark."""
