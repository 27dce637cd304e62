"""Sizes of clusters as people type them."""

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs.servers import Servers, read_servers


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
