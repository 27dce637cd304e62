"""Measurements of this project: speed, papers, leaderboard. Not part of the package."""
