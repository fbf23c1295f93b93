"""The study as executable statements: what to train (presets), what to draw (figures),
what it claims (claims).
"""
