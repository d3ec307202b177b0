"""Which nodes share a device, which devices a group may have, and what cannot be met together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import actorflow as af
from actorflow.errors import ConfigError, PlacementError
from actorflow.graph.node import NodeId
from actorflow.plan.placement.colocate import Groups, HasKernel, colocate
from actorflow.plan.prune import prune

OWN = ("/cpu:0", "/cpu:1", "/gpu:0")
CLUSTER = (
    "/job:worker/task:0/device:cpu:0",
    "/job:worker/task:0/device:cpu:1",
    "/job:ps/task:0/device:cpu:0",
    "/job:ps/task:1/device:cpu:0",
)


def grouped(
    fetch: af.Tensor,
    devices: Sequence[str] = OWN,
    feeds: Sequence[af.Tensor] = (),
    kernels: HasKernel | None = None,
) -> Groups:
    needed = prune(fetch.graph, [fetch.port], [t.port for t in feeds])
    return colocate(fetch.graph, needed, devices, kernels)


def at(groups: Groups, tensor: af.Tensor) -> tuple[str, ...]:
    return groups.allowed[groups.of[tensor.port.node]]


def test_a_node_without_a_scope_may_be_anywhere_and_goes_to_the_first() -> None:
    with af.Graph():
        y = af.exp(af.placeholder("float32", (), name="x"))

    groups = grouped(y)

    assert at(groups, y) == OWN
    assert groups.first(y.port.node) == "/cpu:0"
    assert not groups.stays


def test_a_partial_scope_leaves_a_choice() -> None:
    with af.Graph(), af.device("/job:ps"):
        y = af.exp(af.placeholder("float32", (), name="x"))

    assert at(grouped(y, CLUSTER), y) == CLUSTER[2:]


def test_what_asks_state_and_what_is_colocated_with_it_is_one_group_that_stays() -> None:
    with af.Graph():
        with af.device("/job:ps/task:1"):
            w = af.Variable(1.0, name="w")
        with af.device("/job:worker"):
            read = w.read()
        with af.colocate_with(w):
            y = af.exp(read)
        with af.colocate_with(y):
            z = af.log(y)

    groups = grouped(z, CLUSTER)

    assert at(groups, read) == at(groups, y) == at(groups, z) == CLUSTER[3:]
    assert len(set(groups.of.values())) == 1
    assert groups.stays == set(groups.of.values())


def test_a_target_that_the_step_does_not_need_still_says_where() -> None:
    with af.Graph():
        x = af.placeholder("float32", (), name="x")
        with af.device("/cpu:1"):
            beside = af.exp(x)
        with af.colocate_with(beside):
            y = af.log(x)

    assert at(grouped(y), y) == ("/cpu:1",)


def test_a_first_value_is_computed_anywhere() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.colocate_with(x), af.device(None):
            w = af.Variable(lambda: af.exp(af.zeros((2,))), name="w")
    initial = w.definition.initial
    assert initial is not None

    groups = colocate(graph, prune(graph, [initial], []), OWN)

    assert groups.allowed[groups.of[initial.node]] == OWN


def line(resource: af.Variable) -> str:
    return resource.definition.defined_at


def test_a_contradiction_names_both_with_their_lines_and_what_they_ask() -> None:
    with af.Graph():
        with af.device("/cpu:1"):
            w = af.Variable(1.0, name="w")
        with af.colocate_with(w), af.device("/gpu:0"):
            y = af.exp(2.0, name="y")

    with pytest.raises(PlacementError) as caught:
        grouped(y)

    assert caught.value.what == (
        f"what is colocated shares a device, got '/cpu:1' for 'w' ({line(w)}) "
        f"and '/gpu:0' for 'y' ({y.node.defined_at})"
    )
    assert caught.value.where is not None
    assert caught.value.where.node == "y"


def test_a_scope_inside_colocation_may_say_more_than_its_target() -> None:
    with af.Graph():
        x = af.placeholder("float32", (), name="x")
        with af.device("/job:ps"):
            beside = af.exp(x)
        with af.colocate_with(beside), af.device("/task:1"):
            y = af.log(beside)

    groups = grouped(y, CLUSTER)

    assert at(groups, y) == at(groups, beside) == CLUSTER[3:]
    assert len(set(groups.of.values())) == 1


def test_where_state_is_does_not_depend_on_what_a_step_needs_beside_it() -> None:
    """Other steps would look for it elsewhere."""
    with af.Graph():
        with af.device("/job:ps"):
            w = af.Variable(1.0, name="w")
        read = w.read()
        with af.colocate_with(w), af.device("/task:1"):
            y = af.exp(read, name="y")

    assert at(grouped(read, CLUSTER), read) == CLUSTER[2:3]
    with pytest.raises(PlacementError) as caught:
        grouped(y, CLUSTER)

    assert f"got {CLUSTER[2]!r} for 'w' ({line(w)}) and" in caught.value.what
    assert f"'/job:ps/task:1' for 'y' ({y.node.defined_at})" in caught.value.what


def test_of_the_homes_that_a_scope_leaves_to_state_one_is_chosen_from_outside() -> None:
    with af.Graph() as graph:
        with af.device("/job:ps"):
            a = af.Variable(1.0, name="a").read()
        b = af.Variable(1.0, name="b").read()
        with af.device("/job:ps/task:0"):
            c = af.Variable(1.0, name="c").read()
        needed = prune(graph, [a.port, b.port, c.port], [])

    groups = colocate(graph, needed, CLUSTER, state=dict.fromkeys("abc", CLUSTER[3]))

    assert [at(groups, read) for read in (a, b, c)] == [CLUSTER[3:], CLUSTER[3:], CLUSTER[2:3]]


def test_kernels_that_are_there_limit_the_choice() -> None:
    with af.Graph():
        y = af.exp(af.placeholder("float32", (), name="x"))

    def on_a_card(op: str, device: str) -> bool:
        return "gpu" in device

    assert at(grouped(y, kernels=on_a_card), y) == ("/gpu:0",)


def test_a_scope_that_allows_no_device_with_the_kernel_is_refused_with_where_there_is_one() -> None:
    with af.Graph(), af.device("/cpu:*"):
        y = af.exp(af.placeholder("float32", (), name="x"))

    with pytest.raises(
        PlacementError, match="no kernel for 'exp' where it may run: '/cpu:\\*' allows"
    ) as caught:
        grouped(y, kernels=lambda op, device: "gpu" in device)

    assert caught.value.hint == "there is one on /gpu:0"


def test_a_scope_that_no_device_fits_lists_those_there_are() -> None:
    with af.Graph(), af.device("/job:ps/gpu:*"):
        y = af.exp(af.placeholder("float32", (), name="x"))

    with pytest.raises(
        PlacementError, match=r"unknown device '/job:ps/gpu:\*'; this session has /job:worker"
    ):
        grouped(y, CLUSTER)


def test_a_name_that_is_none_is_refused_at_its_node() -> None:
    """Scopes check names; a graph that was read back may hold any text."""
    with af.Graph() as graph:
        y = af.exp(af.placeholder("float32", (), name="x"))
    object.__setattr__(graph.nodes[y.port.node], "device", "/job:")

    with pytest.raises(ConfigError, match="'job:' is no part of the name of a device") as caught:
        grouped(y)

    assert caught.value.where is not None
    assert caught.value.where.node == "exp"


def transfer(*devices: str, compute: str | None = None) -> tuple[af.Tensor, list[af.Variable], af.Tensor]:
    """Moves what is computed inside an atomic block to the first of its variables."""
    accounts = []
    for k, device in enumerate(devices):
        with af.device(device):
            accounts.append(af.Variable(float(k), name="abc"[k]))
    with af.atomic(*accounts):
        with af.device(compute):
            share = af.exp(accounts[-1].read(), name="share")
        moved = accounts[0].assign_add(share)
    return moved, accounts, share


def processes(groups: Groups) -> set[str]:
    return {device.rpartition("/device")[0] for device in map(groups.first, groups.of)}


def test_what_an_atomic_block_computes_is_in_the_process_of_its_variables() -> None:
    with af.Graph():
        moved, _, share = transfer("/job:ps/task:1", "/job:ps/task:1")

    groups = grouped(moved, CLUSTER)

    assert processes(groups) == {"/job:ps/task:1"}
    assert at(groups, share) == CLUSTER[3:]


def test_what_an_atomic_block_computes_may_be_on_any_device_of_that_process() -> None:
    with af.Graph():
        moved, _, share = transfer("/job:worker", "/job:worker")

    assert at(grouped(moved, CLUSTER), share) == CLUSTER[:2]


def test_what_an_atomic_block_is_to_compute_elsewhere_is_refused() -> None:
    with af.Graph():
        moved, (a, _), share = transfer("/job:ps/task:1", "/job:ps/task:1", compute="/job:worker")

    with pytest.raises(PlacementError) as caught:
        grouped(moved, CLUSTER)

    assert caught.value.what == (
        f"an atomic block is computed in the process of its variables, got '/job:ps/task:1' for 'a' ({line(a)}) "
        f"and '/job:worker' for 'share' ({share.node.defined_at})"
    )


def test_an_atomic_block_over_two_processes_is_refused() -> None:
    with af.Graph():
        moved, _, _ = transfer("/job:ps/task:0", "/job:ps/task:1")

    with pytest.raises(PlacementError) as caught:
        grouped(moved, CLUSTER)

    assert caught.value.what == (
        f"an atomic block deals with variables of one process, got 'a' on {CLUSTER[2]}, 'b' on {CLUSTER[3]}"
    )


def test_an_atomic_block_over_two_devices_of_a_process_is_none_of_its_business() -> None:
    with af.Graph():
        moved, _, _ = transfer("/cpu:1", "/cpu:0")

    grouped(moved)


def trained(*devices: str, scope: str | None = None) -> af.Tensor:
    variables = []
    for k, device in enumerate(devices):
        with af.device(device):
            variables.append(af.Variable(float(k), name="abc"[k]))
    loss = af.square(af.add(variables[0].read(), variables[-1].read()))
    with af.device(scope):
        return af.minimize(loss, af.optim.sgd(0.1), variables)


@pytest.mark.parametrize("scope", [None, "/job:worker"])
def test_an_optimizer_is_with_its_variables_whatever_its_scope_says(scope: str | None) -> None:
    with af.Graph():
        train = trained("/job:ps/task:1", "/job:ps/task:1", scope=scope)

    assert grouped(train, CLUSTER).first(train.port.node) == CLUSTER[3]


def test_an_optimizer_of_variables_in_several_processes_is_refused() -> None:
    with af.Graph():
        train = trained("/job:ps/task:0", "/job:ps/task:1")

    with pytest.raises(
        PlacementError,
        match=r"deals with variables of one process, got 'a' on /job:ps/task:0(.|\n)*cluster with af\.Trainer",
    ):
        grouped(train, CLUSTER)


def test_of_every_needed_node_that_runs_the_group_is_known() -> None:
    with af.Graph() as graph:
        train = trained("/cpu:0", "/cpu:1")
        needed = prune(graph, [train.port], [])

    groups = grouped(train)

    run = [i for i in needed if graph.nodes[i].op != "constant"]
    assert list(groups.of) == run
    assert all(isinstance(groups.first(NodeId(i)), str) for i in run)


def test_a_list_of_tensors_stays_where_it_is_made() -> None:
    with af.Graph():
        x = af.placeholder("float32", (2,), name="x")
        array = af.TensorArray("float32", element_shape=(2,))
        with af.device("/cpu:1"):
            array = array.write(0, x)
        y = array.stack()
        z = af.exp(y)

    groups = grouped(z)

    assert at(groups, y) == at(groups, array.flow) == ("/cpu:1",)
    assert at(groups, z) == OWN  # what it is stacked to goes where it likes


def test_a_list_is_in_two_places_where_scopes_say_so() -> None:
    with af.Graph():
        with af.device("/cpu:1"):
            array = af.TensorArray("float32", element_shape=(2,)).write(0, af.ones((2,)))
        more = array.write(1, af.ones((2,)))
        with af.device("/gpu:0"):
            y = more.stack()

    groups = grouped(y)

    assert at(groups, array.flow) == at(groups, more.flow) == ("/cpu:1",)  # the rest stays together
    assert at(groups, y) == ("/gpu:0",)
