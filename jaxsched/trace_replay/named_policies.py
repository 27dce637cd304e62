"""The policies that a leaderboard compares, by name; ``policies`` says what each order is."""

from dataclasses import replace
from types import MappingProxyType

from jaxsched.trace_replay.policies import DECADES, Policy

SPOT_RESTART_S, SPOT_CHECKPOINT_S = 300, 1800
"""What a suspension costs a spot job where policies for them are compared (s): a restart, and what
was done since the last of its half-hourly checkpoints. Both are assumed."""

_LOSSY = Policy("spot", "skip", restart_s=SPOT_RESTART_S, checkpoint_s=SPOT_CHECKPOINT_S)

POLICIES = MappingProxyType(
    {
        "fifo": Policy("fifo", "block"),
        "fifo-skip": Policy("fifo", "skip"),
        "fifo-easy": Policy("fifo", "easy"),
        "fifo-firstfit": Policy("fifo", "skip", "first_fit"),
        "fifo-loadbalance": Policy("fifo", "skip", "load_balance"),
        "fifo-any": Policy("fifo", "skip", locality="any"),
        "sjf": Policy("sjf", "skip"),
        "sjf-block": Policy("sjf", "block"),
        "sjf-easy": Policy("sjf", "easy"),
        "lrf": Policy("lrf", "skip"),
        "spf": Policy("spf", "skip"),
        "spf-easy": Policy("spf", "easy"),
        "drf": Policy("drf", "skip"),
        "drf-easy": Policy("drf", "easy"),
        "drf-firstfit": Policy("drf", "skip", "first_fit"),
        "drf-loadbalance": Policy("drf", "skip", "load_balance"),
        "tetris": Policy("tetris", "skip", "load_balance"),
        "tetris-pack": Policy("tetris", "skip", "pack"),
        "srtf": Policy("srtf", "skip"),
        "srtf-300s": Policy("srtf", "skip", restart_s=300),
        "srsf": Policy("srsf", "skip"),
        "srsf-300s": Policy("srsf", "skip", restart_s=300),
        "las": Policy("las", "skip"),
        "las-decades": Policy("las", "skip", thresholds=DECADES),
        "las-decades-300s": Policy("las", "skip", thresholds=DECADES, restart_s=300),
        "tiresias": Policy("tiresias", "skip"),
        "tiresias-decades": Policy("tiresias", "skip", thresholds=DECADES),
        "tiresias-decades-300s": Policy("tiresias", "skip", thresholds=DECADES, restart_s=300),
        "2d-gittins": Policy("gittins", "skip", thresholds=DECADES),
        "2d-gittins-300s": Policy("gittins", "skip", thresholds=DECADES, restart_s=300),
        "qssf": Policy("qssf", "skip"),
        "learned": Policy("learned", "skip"),
        "learned-300s": Policy("learned", "skip", restart_s=300),
        "learned-once": Policy("learned-once", "skip"),
        "fifo-easy-est": Policy("fifo", "easy", run_times="estimates"),
        "sjf-est": Policy("sjf", "skip", run_times="estimates"),
        "sjf-easy-est": Policy("sjf", "easy", run_times="estimates"),
        "spf-est": Policy("spf", "skip", run_times="estimates"),
        "themis": Policy("fairness", "skip"),
        "themis-est": Policy("fairness", "skip", run_times="estimates"),
        "vc-themis": Policy("group-fairness", "skip"),
        "vc-themis-est": Policy("group-fairness", "skip", run_times="estimates"),
        "vc-maxmin": Policy("drf", "skip", share="work"),
        "vc-isolated": Policy("fifo", "skip", share="work", isolated=True),
        "vc-isolated-equal": Policy("fifo", "skip", isolated=True),
        "edf": Policy("edf", "skip"),
        "priority": Policy("priority", "skip"),
        "spot": Policy("spot", "skip"),
        "spot-headroom": Policy("spot", "skip", headroom_percent=10),
        "spot-300s": Policy("spot", "skip", restart_s=300),
        "spot-lossy": _LOSSY,
        "spot-lossy-headroom": replace(_LOSSY, headroom_percent=10),
        "gfs-quota": replace(_LOSSY, forecast_percent=50),
        "gfs-victims": replace(_LOSSY, victims="waste"),
        "gfs": replace(_LOSSY, forecast_percent=50, victims="waste"),
        "gfs-90": replace(_LOSSY, forecast_percent=90, victims="waste"),
        "edf-easy-est": Policy("edf", "easy", run_times="estimates"),
    }
)
"""The policies that a leaderboard compares, by name."""

COMMITTED = MappingProxyType(
    {
        "fcfs": Policy("fifo", "commit", "first_fit"),
        "lcfs": Policy("lifo", "commit", "first_fit"),
        "sjf": Policy("sjf-narrow", "commit", "first_fit"),
        "lpf": Policy("lpf", "commit", "first_fit"),
        "f1": Policy("f1", "commit", "first_fit"),
    }
)
"""The rules of RLTune's published environment (github.com/dshruti20/RLTune) under its names; its
cluster for Philly is ``Cluster.of("16x2:4,20x8")``."""

TYPED = MappingProxyType(
    {
        "fifo-fastest": Policy("fifo", "skip", type_choice="fastest"),
        "fifo-fastest-half": Policy("fifo", "skip", type_choice="fastest", least_speed_percent=50),
        "sjf-fastest": Policy("sjf", "skip", type_choice="fastest"),
        "sjf-fastest-half": Policy("sjf", "skip", type_choice="fastest", least_speed_percent=50),
        "least-slowdown": Policy("slowdown", "skip", type_choice="fastest"),
    }
)
"""Rules for GPUs of different types: fastest free type first, the same where jobs wait for a type
that is at least half as fast as their fastest, and least relative slowdown first."""

SHARED = MappingProxyType(
    {
        "fifo-fgd": Policy("fifo", "skip", "fgd"),
        "fifo-easy-fgd": Policy("fifo", "easy", "fgd"),
        "sjf-fgd": Policy("sjf", "skip", "fgd"),
    }
)
"""Rules that place by fragmentation (Alibaba's FGD), which is about shares of GPUs."""

FURTHER = MappingProxyType(
    {**{f"{name}-committed": policy for name, policy in COMMITTED.items()}, **TYPED, **SHARED}
)
"""Policies that a leaderboard plays when they are asked for by name."""
