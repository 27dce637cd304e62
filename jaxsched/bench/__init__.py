"""Measured speed: environment alone, environment with a policy network, training, and peers.

``throughput`` and ``training`` measure and return plain dictionaries; ``tables`` prints them. The
command line (``jaxsched bench``) is a thin shell around these.
"""
