"""The rules of rigid jobs: dynamics, suspension, observations, resampled futures."""
