"""What a compiled program sends between devices, by kind and by how many loops it stands in."""

import re
from collections import Counter

KINDS = ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-permute")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_OPERATION = re.compile(rf"= .*?\b({'|'.join(KINDS)})(?:-start)?\(")
_CALLED = re.compile(
    r"(body|condition|to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")


def collectives(text):
    """``{(kind, depth): count}`` of an optimised HLO module; depth 0 is outside all loops."""
    counts, calls, entry, name = {}, {}, None, None
    for line in text.splitlines():
        start = _COMPUTATION.match(line)
        if start:
            name = start[2]
            counts[name], calls[name] = Counter(), []
            entry = name if start[1] else entry
        elif name is not None:
            found = _OPERATION.search(line)
            if found:
                counts[name][found[1]] += 1
            calls[name] += [(way in ("body", "condition"), to) for way, to in _CALLED.findall(line)]
            for listed in _BRANCHES.findall(line):
                calls[name] += [(False, to.strip().lstrip("%")) for to in listed.split(",")]
    total = Counter()

    def visit(computation, depth):
        for kind, count in counts[computation].items():
            total[kind, depth] += count
        for loops, called in calls[computation]:
            visit(called, depth + loops)

    visit(entry, 0)
    return dict(total)
