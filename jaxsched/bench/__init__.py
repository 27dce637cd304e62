"""Measured speed: environment alone, environment with a policy network, training, and peers.

``throughput`` and ``training`` measure and return plain dictionaries; ``tables`` prints them. The
command line and the scripts in ``benchmarks/`` are thin shells around these.
"""
