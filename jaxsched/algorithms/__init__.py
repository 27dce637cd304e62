"""Learning algorithms, one module each; none depends on an environment."""
