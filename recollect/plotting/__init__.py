"""How pictures look, on the page and in figures: colours, markers, settings, sheets."""
