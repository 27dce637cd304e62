"""Learners: one file each, none of which knows any environment."""
