"""Planning of training: memory, speed, forecast, order, benchmark."""
