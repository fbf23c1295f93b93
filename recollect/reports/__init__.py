"""Reports from rows and runs: the study's figures, tables and claims, the card of a mixer, the
inspection of a trained run, the page about a folder, and exports.
"""
