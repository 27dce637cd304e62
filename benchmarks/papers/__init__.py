"""Reproductions of the published systems' tables and figures: rows of experiments with claims.

A paper is a list of rows (``chic/``, ``dl2/``); a row trains or plays what it needs through a
``Lab`` and returns an ``Outcome``. ``runner`` runs rows, keeps what is finished and prints it;
``benchmarks/papers/`` has the scripts.
"""

from benchmarks.papers.lab import Lab, Study
from benchmarks.papers.outcome import Outcome, Table
from benchmarks.papers.runner import Paper, Row, run
from benchmarks.papers.settings import Settings, Workload

__all__ = ["Lab", "Outcome", "Paper", "Row", "Settings", "Study", "Table", "Workload", "run"]
