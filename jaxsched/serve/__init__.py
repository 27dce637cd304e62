"""Trained policies and heuristics behind HTTP: a cluster comes in, a decision goes out."""
