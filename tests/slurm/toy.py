"""A real Slurm on this machine: its controller and virtual nodes of eight GPUs, which are files."""

import os
import pwd
import shutil
import subprocess
import time
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "mungekey", "sbatch", "squeue", "scontrol")
CONF = """\
ClusterName=toy
SlurmctldHost=localhost
SlurmctldAddr=127.0.0.1
SlurmctldPort=16817
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/basic
GresTypes=gpu
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=17001 CPUs=8 Gres=gpu:8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why no Slurm can be started here; empty: it can."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=_path())]
    if absent:
        return f"Slurm is not installed ({', '.join(absent)}; Debian: slurm-wlm munge)"
    return "" if os.geteuid() == 0 else "a Slurm of one's own needs root"


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class Toy:
    """One node of eight GPUs, until ``stop``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("state", "spool", "dev"):
            (folder / name).mkdir()
        for k in range(8):
            (folder / "dev" / f"gpu{k}").touch()
        (folder / "gres.conf").write_text(f"Name=gpu File={folder}/dev/gpu[0-7]\n")
        (folder / "slurm.conf").write_text(CONF.format(folder=folder))
        self.env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
        self._munge()
        self.call("slurmctld", "-c")
        self.call("slurmd", "-N", "n1")
        self._wait(lambda: self.call("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "1")

    def call(self, *words: str) -> str:
        done = subprocess.run(
            words, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=30,
            check=True,
        )  # fmt: skip
        return done.stdout

    def submit(self, seconds: float, *, account: str, minutes: int) -> int:
        """A job that takes the whole node."""
        words = ("sbatch", "--parsable", "--gres=gpu:8", f"--time={minutes}", f"-A{account}",
                 "-o/dev/null", f"--wrap=sleep {seconds}")  # fmt: skip
        return int(self.call(*words))

    def ended(self) -> dict[int, tuple[int, int]]:
        """Submission and start of each job that has ended, Unix time."""
        lines = self.call("scontrol", "-o", "show", "jobs").splitlines()
        found = {}
        for line in lines:
            cells = dict(cell.split("=", 1) for cell in line.split() if "=" in cell)
            if cells.get("JobState") == "COMPLETED":
                times = (cells["SubmitTime"], cells["StartTime"])
                found[int(cells["JobId"])] = tuple(
                    int(time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))) for text in times
                )
        return found

    def wait_for(self, jobs: list[int]) -> dict[int, tuple[int, int]]:
        self._wait(lambda: set(jobs) <= set(self.ended()), 120)
        return {number: self.ended()[number] for number in jobs}

    def stop(self) -> None:
        for file in self.folder.glob("*.pid"):
            subprocess.run(["kill", file.read_text().strip()], check=False)

    def _munge(self) -> None:
        """The daemon that signs messages; one for the machine."""
        if subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode == 0:
            return
        if not Path("/etc/munge/munge.key").exists():
            self.call("mungekey", "-c")
        Path("/run/munge").mkdir(exist_ok=True)
        owner = pwd.getpwnam("munge")
        os.chown("/run/munge", owner.pw_uid, owner.pw_gid)
        self.call("su", "-s", "/bin/sh", "munge", "-c", "/usr/sbin/munged")

    def _wait(self, holds, seconds: float = 30) -> None:
        last = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > last:
                log = (self.folder / "slurmctld.log").read_text()[-2000:]
                raise TimeoutError(f"Slurm did not get there in {seconds} s: {log}")
            time.sleep(0.3)
