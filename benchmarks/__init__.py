"""Measurements of this project: speed, papers, intervals. Not part of the package."""
