"""Policies of DAS that need no training, or were found by search and are shipped."""
