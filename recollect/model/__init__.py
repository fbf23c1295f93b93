"""The model around a mixer: layers with a population axis, channel mixers, embedding and head."""
