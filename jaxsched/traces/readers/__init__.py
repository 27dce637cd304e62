"""Readers of published trace formats, one file each; every one gives a canonical ``Trace``."""
