"""HTTP examples of the pages: they are found, and every body can be read."""

import re

import pytest

pytest.importorskip("starlette")

from jaxsched.serve import decisions
from jaxsched.serve.bodies import wanted
from jaxsched.systems import functions, registry
from tests.docs.http_examples import examples
from tests.docs.pages import DOCS, pages

PAGE = DOCS / "serve.md"
ASKED = [example for example in examples(PAGE) if example.body is not None]


def test_all_examples_are_found():
    lines = re.findall(r"^\$ curl .*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(examples(PAGE)) == len(lines) >= 9
    assert len(ASKED) >= 4 and all(example.answer for example in ASKED)
    others = [page for page in pages() if "curl " in page.read_text(encoding="utf-8")]
    assert others == [PAGE], "other pages need a test, too"


@pytest.mark.parametrize("example", ASKED, ids=lambda example: example.body.get("policy", "first"))
def test_bodies_can_be_read(example):
    name, clusters, _ = wanted(example.body)
    names = [source.partition("/")[0] for source in example.serve[2:]]
    assert name in names if name else len(names) == 1
    system = registry.get(name or names[0])
    reader = functions.cluster_reader(system)
    reader.read(reader.environment(functions.environment(system)), clusters, decisions.LEAST_JOBS)
    shown = example.answer.get("decisions") or [example.answer["decision"]]
    for cluster, decision in zip(clusters, shown, strict=True):
        told = reader.estimated(cluster)
        for assumed, estimate in zip(told, decision["estimated"], strict=False):
            from_past = {"expected"} & estimate.keys()  # what a decision makes of other jobs
            assert assumed | {name: estimate[name] for name in from_past} == estimate
        assert len(told) <= len(decision["estimated"])
