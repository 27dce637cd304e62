"""SCHED2's workload: bursty arrivals, mostly one-GPU jobs, minutes to hours long.

Source: SCHED2, workload; specification, section 11.
"""

from jaxsched.traces.synthetic import SyntheticConfig

MODEL_SHARES = (0.025, 0.025, 0.025, 0.025, 0.30, 0.60)
"""Share of each model id: computer vision 10 % (ids 0-3), speech 30 % (4), language 60 % (5).
Source: Luan et al., workload."""

SERVERS = (8,) * 15
"""GPUs of each server of the cluster that the loads below refer to."""

SCHED2_WORKLOAD = SyntheticConfig(
    num_jobs=1000,
    mean_gap_s=172.0,
    gap_sigma=1.6,
    one_gpu_share=0.68,
    multi_gpu_sizes=(2, 4, 8, 16),
    multi_gpu_weights=(6, 10, 12, 4),
    duration_median_s=3600.0,
    duration_sigma=0.9,
    duration_min_s=180.0,
    duration_max_s=36000.0,
    duration_step_s=10,
    model_shares=MODEL_SHARES,
)
"""Calibrated to Figure 3: 68 % one-GPU jobs, mean run time about 5,300 s, gaps with a coefficient
of variation of about 3.5, an offered load of 0.72 on 120 GPUs."""

OFFERED_LOADS = {60: 0.84, 68: 0.72, 75: 0.62}
"""Offered load on 120 GPUs of the workload above by its share of one-GPU jobs (%)."""

SAMPLE_LOAD = OFFERED_LOADS[68]
"""Offered load of the resampled real traces; as published, ITP cluster 4 would ask for several
times the 120 GPUs."""
