"""The look of pictures, on the page and in figures: colours, markers, settings, sheets."""
