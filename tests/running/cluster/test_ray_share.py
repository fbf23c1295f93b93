"""What of a node a Ray task gets; Ray itself is in tests/cluster."""

import pytest

from recollect.errors import SpecError
from recollect.running.cluster.ray_tasks import RayOptions, task_share

LAPTOP = {"CPU": 2.0}
NODE = {"CPU": 64.0, "GPU": 8.0}
HEAD = {"memory": 1e9}


@pytest.mark.parametrize(
    ("options", "nodes", "share"),
    [
        (RayOptions(), [LAPTOP], {"GPU": 0.0, "CPU": 2.0}),
        (RayOptions(), [HEAD, LAPTOP, NODE], {"GPU": 1.0, "CPU": 4.0}),
        (RayOptions(device="cpu"), [NODE], {"GPU": 0.0, "CPU": 4.0}),
        (RayOptions(gpus=0.5, cpus=1), [NODE], {"GPU": 0.5, "CPU": 1.0}),
        (RayOptions(cpus=64), [NODE, NODE], {"GPU": 1.0, "CPU": 64.0}),
    ],
    ids=str,
)
def test_a_share_fits_on_the_largest_node(options, nodes, share):
    assert task_share(options, nodes) == share


def test_a_task_that_fits_on_no_node_is_refused():
    with pytest.raises(SpecError) as error:
        task_share(RayOptions(cpus=65), [NODE, NODE])
    assert str(error.value) == "a task wants 65 CPU, the largest node has 64; use --cpus"
    with pytest.raises(SpecError, match="a task wants 1 GPU, the largest node has 0; use --gpus"):
        task_share(RayOptions(gpus=1), [LAPTOP])
