"""What intervals of ``jaxsched leaderboard`` are worth (``coverage``)."""
