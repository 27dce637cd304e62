"""Other projects' environments, each timed in a process of its own.

A worker runs as ``python -m jaxsched.bench.peer_workers.NAME`` under an interpreter that has the
other project (it needs nothing else of jaxsched's dependencies). It writes what it is as a line of
JSON, then reads one request per line, ``{"batch": B, "num_steps": T, "repeats": R, "least_s": S,
"devices": D}``, and answers each with one line.
"""
