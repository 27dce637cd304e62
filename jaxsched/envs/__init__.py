"""Environments: one folder per published system, reached by name through the registry."""
