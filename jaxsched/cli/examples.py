"""Examples in the help of each command, as one types them."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("jaxsched demo", "jaxsched demo --preset quick --out runs/paper-learner"),
    "train": (
        "jaxsched train sched2 --preset quick --out runs/first",
        "jaxsched train dl2 --preset search --num-seeds 3",
        "jaxsched train chic --set learner.rho=0.2 --trace jobs.csv",
        "jaxsched train sched2 --out runs/first --resume",
        "jaxsched train --config runs/first/run.toml --seed 1 --out runs/second",
    ),
    "evaluate": (
        "jaxsched evaluate sched2 --policy sched2/pretrained",
        "jaxsched evaluate sched2 --policy fifo --servers 40x8 --load 0.9 --jobs times.csv",
        "jaxsched evaluate dl2 --policy drf --num-traces 10",
        "jaxsched evaluate sched2 --policy runs/first --json - --quiet",
    ),
    "compare": (
        "jaxsched compare sched2 --checkpoint runs/first --html report.html",
        "jaxsched compare mlfs --policies mlf_h,mlfs/pretrained --num-traces 5",
    ),
    "headroom": ("jaxsched headroom sched2 --policy strict_sif --num-traces 10",),
    "export": (
        "jaxsched export runs/first --format safetensors,onnx --out policy",
        "jaxsched export sched2/pretrained --out policy",
        "jaxsched export sched2 --environment --servers 40x8 --out env",
    ),
    "replay": (
        "jaxsched replay runs/first --html schedule.html",
        "jaxsched replay sched2/pretrained --policy fifo",
    ),
    "advise": (
        "jaxsched advise month.csv --servers 40x8",
        "jaxsched advise sacct.txt --servers 40x8 --policies fifo,sjf-est,qssf,learned --by user",
    ),
    "leaderboard": (
        "jaxsched leaderboard --workloads helios-venus --num-jobs 2000 --html board.html",
        "jaxsched leaderboard --trace log.csv --servers 40x8 --policies fifo,sjf --jobs times.csv",
        "jaxsched leaderboard --trace jobs.csv --policy my_rules:widest_last",
    ),
    "slurm": (
        "jaxsched slurm --policy learned-once --history sacct.txt --dry-run",
        "jaxsched slurm --policy sjf-est --every 60 --longest-wait 12h --partition gpu",
        "jaxsched slurm --restore",
    ),
    "kueue": (
        "jaxsched kueue --policy learned-once --history workloads.json --dry-run",
        "jaxsched kueue --policy lrf --every 60 --longest-wait 12h --queue gpu",
        "jaxsched kueue --read queues.json --policy qssf --history workloads.json",
        "jaxsched kueue --restore",
    ),
    "serve": (
        "jaxsched serve runs/first --port 8080",
        "jaxsched serve sched2/strict_sif --servers 40x8",
    ),
    "simulate": (
        "jaxsched simulate case.json --json result.json",
        "jaxsched simulate case.json --policy sched2/fifo",
    ),
    "sweep": (
        "jaxsched sweep sched2 --over learner.learning_rate=1e-4,1e-3 --num-seeds 3",
        "jaxsched sweep sched2 --over learner.learning_rate=1e-4,1e-3 --num-seeds 3 "
        "--side-by-side 3 --engine ray",
    ),
    "bench": (
        "jaxsched bench throughput --system chic --quick",
        "jaxsched bench training --system sched2 --preset plain-ppo",
    ),
    "doctor": (
        "jaxsched doctor",
        "jaxsched doctor sched2 --preset plain-ppo",
        "jaxsched doctor sched2 --preset gpu-ppo",
    ),
    "list": ("jaxsched list",),
    "traces fetch": ("jaxsched traces fetch philly",),
    "traces list": ("jaxsched traces list",),
    "traces import": ("jaxsched traces import jobs.csv --out trace.csv",),
    "traces convert": ("jaxsched traces convert trace.csv --system sched2 --out tables",),
    "traces generate": ("jaxsched traces generate sched2-68 --num-traces 3 --out traces.csv",),
    "traces describe": ("jaxsched traces describe sched2-68 --plot trace.pdf",),
}
