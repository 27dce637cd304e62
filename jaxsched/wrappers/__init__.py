"""Environments around environments: history, fixed length, a teacher's choices."""
