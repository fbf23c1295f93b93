"""What is made of rows and runs for people: the study's figures, tables and claims, the card of a
mixer, the inside of a trained run, and the page about a folder.
"""
