"""What a system tells the rest of the library, and the registry of systems by name."""
