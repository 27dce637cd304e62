"""The paper's claims beside a comparison's means."""

from jaxsched.envs.sched2.show.paper import paper_rows

MEANS = {
    **dict.fromkeys(("avg_effectiveness", "avg_jct", "makespan", "avg_run", "avg_wait"), 1.0),
    **dict.fromkeys(("fragmentation", "reuse_fraction"), 0.5),
    **dict.fromkeys(("relaxed_sensitive", "relaxed_insensitive"), 0.1),
}


def test_a_ratio_to_nothing_has_no_row():
    whole = paper_rows({"fifo": MEANS}, MEANS)
    idle = paper_rows({"fifo": {**MEANS, "avg_wait": 0.0, "fragmentation": 0.0}}, MEANS)
    gone = {row["item"] for row in whole} - {row["item"] for row in idle}
    assert len(whole) == 8 and {item[:8] for item in gone} == {"Fig. 9: ", "Fig. 10b"}
