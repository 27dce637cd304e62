"""Training runs on disk: driver, directory, checkpoints, progress, overrides."""
