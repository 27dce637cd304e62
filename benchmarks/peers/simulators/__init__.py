"""The five systems in slow plain Python, written from the specifications alone."""
