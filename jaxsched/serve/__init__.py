"""Trained policies and heuristics behind HTTP: a cluster comes in, a decision goes out."""

TOKEN = "JAXSCHED_TOKEN"
"""Variable of the environment that may hold the token which requests must bear."""
