"""The study in executable form: its experiments (presets), its figures and tables (figures) and
its claims (claims).
"""
