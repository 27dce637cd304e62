"""Simulators that ours are measured beside; ``simulators`` are what tests compare it with."""
