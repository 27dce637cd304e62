"""Sizes of clusters as people type them."""

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs.servers import Kind, Servers, read_servers


@pytest.mark.parametrize("text", ["40x8", "40X8", " 40 x 8 ", "40×8", "40*8"])
def test_a_size_is_read(text):
    found = read_servers(text)
    assert found == Servers(40, 8) and found.num_gpus == 320 and str(found) == "40x8"


@pytest.mark.parametrize(
    "text", ["", "40", "x8", "40x", "0x8", "4x-8", "4.5x8", "²x8", "9" * 10**6]
)
def test_what_is_no_size_is_refused_in_one_line(text):
    with pytest.raises(JaxschedError, match="servers is .*accepted: servers x GPUs") as caught:
        read_servers(text)
    assert len(str(caught.value)) < 150


def test_servers_of_different_sizes():
    found = read_servers("16x2:4, 20 x 8", mixed=True)
    assert found == Servers(36, 8, (Kind(16, 2, 4), Kind(20, 8, 160)))
    assert found.num_gpus == 192 and str(found) == "16x2:4,20x8" and found.has_limits
    usual = read_servers("16x2,20x8", mixed=True)
    assert usual.kinds[0] == Kind(16, 2, 2) and str(usual) == "16x2,20x8" and not usual.has_limits
    assert read_servers("40x8", mixed=True) == Servers(40, 8)
    assert str(read_servers("8x8:4", mixed=True)) == "8x8:4"


def test_types_of_gpus():
    found = read_servers("4x8@V100, 8x8 @ k80, 2x4:6@k80", mixed=True)
    kinds = Kind(4, 8, 32, "v100"), Kind(8, 8, 64, "k80"), Kind(2, 4, 6, "k80")
    assert found == Servers(14, 8, kinds) and found.has_types
    assert str(found) == "4x8@v100,8x8@k80,2x4:6@k80"
    assert read_servers(str(found), mixed=True) == found
    assert read_servers("4x8@a", mixed=True) == Servers(4, 8, (Kind(4, 8, 32, "a"),))
    assert not read_servers("4x8,2x2", mixed=True).has_types


def test_slots_of_gpus():
    found = read_servers(" 40 x 8 x 7 ", mixed=True, shared=True)
    assert found == Servers(40, 8, (), 7) and str(found) == "40x8x7" and found.num_gpus == 320
    text = "16x2x4:4/32@a,20x8x4@a"
    several = read_servers(text, mixed=True, shared=True)
    assert several.slots == 4 and str(several) == text and several.kinds[0].largest_job == 4
    assert read_servers("40x8x1") == Servers(40, 8)
    for mixed in (False, True):
        with pytest.raises(
            JaxschedError,
            match="40x8x7', with slots of GPUs, which count for nothing here; acc",
        ):
            read_servers("40x8x7", mixed=mixed)
    with pytest.raises(JaxschedError, match="GPUs of different slots; accepted: the same for all"):
        read_servers("16x2x4,20x8", mixed=True, shared=True)
    with pytest.raises(JaxschedError, match="accepted: servers x GPUs"):
        read_servers("40x8x0", mixed=True, shared=True)


def test_cpus_and_memory():
    text = "16x2:4/32@a,10x8/96/512@a,4x8/0/256@a"
    found = read_servers(text, mixed=True)
    assert found.demands == ("cpus", "memory_gb") and str(found) == text
    assert found.kinds[0] == Kind(16, 2, 4, "a", 32) and found.kinds[1][4:] == (96, 512)
    one = read_servers(" 4 x 8 / 96 ", mixed=True)
    assert one == Servers(4, 8, (Kind(4, 8, 32, "", 96),)) and one.demands == ("cpus",)
    assert str(one) == "4x8/96" and read_servers("4x8/0/0", mixed=True).demands == ()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("4x8/", "accepted: servers x GPUs"),
        ("4x8/1/2/3", "accepted: servers x GPUs"),
        ("4x8@a/96", "accepted: servers x GPUs"),
        ("4x8/9,2x8/9", "the same size twice; accepted: every size once"),
        ("4x8/1048577", "accepted: up to 1048576 CPUs and GB"),
        ("4x8@a,2x8@a", "the same size and type twice; accepted: every size and type once"),
        ("4x8@a,2x4", "with a type for some GPUs only; accepted: one for all or for none"),
        ("4x8@", "accepted: servers x GPUs"),
        ("4x8@8a", "accepted: servers x GPUs"),
        ("4x8@" + "a" * 33, "accepted: servers x GPUs"),
        ("4x8@a:4", "accepted: servers x GPUs"),
        ("16x2,", "accepted: servers x GPUs of each, such as 40x8, or several with commas"),
        ("16x2,0x8", "accepted: servers x GPUs"),
        ("16x2:", "accepted: servers x GPUs"),
        ("4x8,4x8", "the same size twice; accepted: every size once"),
        ("4x2:9,4x8", "at most 9 GPUs on 4 servers of 2; accepted: from 1 to 8"),
        ("4x2:0,4x8", "at most 0 GPUs on 4 servers of 2; accepted: from 1 to 8"),
        ("1x1," * 99, "accepted: servers x GPUs"),
    ],
)
def test_what_is_no_mixture_is_refused_in_one_line(text, match):
    with pytest.raises(JaxschedError, match=match) as caught:
        read_servers(text, mixed=True)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("text", ["16x2,20x8", "8x8:4", "8x8@a", "8x8/9"])
def test_a_mixture_is_refused_where_servers_must_be_alike(text):
    with pytest.raises(
        JaxschedError, match=f"is '{text}'; accepted: servers x GPUs of each, such as 40x8$"
    ):
        read_servers(text)
