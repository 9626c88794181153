#!/usr/bin/env python3
"""Processes that join each other train a module by telar.torch, as one process trains it.

    PYTHONPATH=build/release/python scripts/install-peers --run tests/python/check_group.py

The processes are of this program; each makes all checks, with a group for each, and the last one is killed in its midst.
"""

import copy
import os
import signal
import socket
import subprocess
import sys
import time

import torch
from torch import nn

import telar
import telar.torch as tt

PROCESSES = 3
TOKEN = "a-token-of-this-test"


def module():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))


def deep():
    """For three stages."""
    return nn.Sequential(module(), nn.ReLU(), nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))


def batches(number=6, size=12):
    random = torch.Generator().manual_seed(5)
    return [(torch.randn(size, 6, generator=random), torch.randint(0, 3, (size,), generator=random)) for _ in range(number)]


def part(batch, group, unequal=False):
    """This process's samples of a batch; unequal: 1, 4 and the rest."""
    bounds = [0, 1, 5, len(batch[0])] if unequal else [len(batch[0]) * i // group.size for i in range(group.size + 1)]
    return tuple(tensor[bounds[group.rank]:bounds[group.rank + 1]] for tensor in batch)


def step_of(model, group, optimizer=None, /, **options):
    optimizer = optimizer or torch.optim.Adam(model.parameters(), 0.01)
    if group is not None:
        options = options if "strategy" in options else {"strategy": "mirrored", "replicas": 1, **options}
    return tt.Step(model, nn.CrossEntropyLoss(), optimizer, group=group, **options)


def trained(group, unequal=False, whole=False, module=module, **options):
    """(losses, model, evaluation) after the batches; all processes begin with other values than rank 0. whole: each gives all samples."""
    torch.manual_seed(3 if group is None else 3 + group.rank)
    model = module()
    step = step_of(model, group, **options)
    def own(batch):
        return batch if group is None or whole else part(batch, group, unequal)

    losses = [step(*own(batch)) for batch in batches()]
    model.eval()
    return losses, model, step.evaluate(*own(batches()[0]))


def assert_same(found, expected):
    """Of two trained()."""
    (losses, model, evaluated), (losses_alone, alone, evaluated_alone) = found, expected
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(losses_alone), rtol=1e-5, atol=1e-6)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, alone.state_dict()[name], rtol=1e-4, atol=1e-5, msg=lambda text: f"{name}: {text}")
    assert abs(evaluated - evaluated_alone) < 1e-5, (evaluated, evaluated_alone)


def equals_one_process(group):
    for unequal, clip_norm in ((False, None), (True, 0.1)):
        assert_same(trained(group, unequal, clip_norm=clip_norm), trained(None, clip_norm=clip_norm))


SHARDED = [{"strategy": "sharded", "replicas": 1, "stage": stage, **({"whole_below": 0} if stage > 1 else {})} for stage in (1, 2, 3)]


def divided_state_equals_one_process(group):
    expected = trained(None, clip_norm=0.1)
    for options in SHARDED:
        assert_same(trained(group, unequal=True, clip_norm=0.1, **options), expected)


def averaged_parameters_equal_one_process(group):
    options = {"strategy": "local_sgd", "average_every": 4}
    assert_same(trained(group, replicas=1, **options), trained(None, replicas=group.size, **options))


def divided_layers_equal_one_process(group):
    expected = trained(None)
    assert_same(trained(group, whole=True, module=deep, strategy="pipeline", stages=group.size), trained(None, module=deep))
    assert_same(trained(group, strategy="tensor", ways=group.size, split=["0=columns"]), expected)
    assert_same(trained(group, strategy="hybrid", data=group.size, model=1, stages=2, batch_norm="local"), expected)


def parts_that_do_not_fit_are_refused(group):
    """What the strategy and its processes need of a batch."""
    model, batch = nn.Linear(6, 3), batches()[0]
    step = step_of(deep(), group, strategy="pipeline", stages=group.size)
    refused("ranks 0 and 1 compute the same samples with the strategy pipeline", lambda: step(*part(batch, group)))
    step = step_of(model, group, strategy="tensor", ways=group.size, split=["*=columns"])
    refused("rank 0 gives 1 of 12 samples; with the strategy tensor it must be 4", lambda: step(*part(batch, group, unequal=True)))
    step = step_of(model, group, strategy="single")
    refused("'single' trains in one process, not 3", lambda: step(*batch))
    step = step_of(model, group, strategy="pipeline", stages=2)
    refused("2 workers in all processes together, which 3 processes cannot divide equally", lambda: step(*batch))


def a_divided_state_is_whole_after_sync(group):
    """In any process, and what all read they read together. A training goes on from it as one that was not interrupted."""
    def begun(state=None, optimizer_state=None):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        if state is not None:
            model.load_state_dict(state)
            optimizer.load_state_dict(optimizer_state)
        return model, optimizer, step_of(model, group, optimizer, **SHARDED[1])

    parts = [part(batch, group) for batch in batches()]
    model, optimizer, step = begun()
    for batch in parts[:3]:
        step(*batch)
    step.sync()
    if group.rank == 1:
        assert all(tensor.isfinite().all() for state in optimizer.state_dict()["state"].values() for tensor in state.values())
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    resumed_model, _, resumed = begun(*saved)
    losses = [[one(*batch) for batch in parts[3:]] for one in (step, resumed)]
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(resumed.values(), step.values(), rtol=1e-5, atol=1e-6)
    step(*parts[0])
    if group.rank == 0:
        refused("after sync() of the Step in all of them", lambda: copy.deepcopy(optimizer.state_dict()))
    else:
        refused("rank 0 reads values of the module, and rank 1 makes step 8", lambda: step(*parts[0]))


def divided_values_of_one_process_are_refused(group):
    model = nn.Linear(6, 3)
    step = step_of(model, group, **SHARDED[2])
    batch = part(batches()[0], group)
    step(*batch)
    norm = model.bias.norm()  # all read it
    if group.rank == 1:
        with torch.no_grad():
            model.bias += norm
    refused("'bias' was written on rank 1 and not on rank 0", lambda: step(*batch))


def statistics_are_of_the_whole_batch(group):
    def normalised():
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for unequal in (False, True):
        losses, model, _ = trained(group, unequal, module=normalised)
        expected, alone, _ = trained(None, module=normalised)
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(model[1].running_var, alone[1].running_var, rtol=1e-4, atol=1e-5)


def pytorchs_optimizer_updates(group):
    """One that Telar does not have takes the gradient of the whole batch."""
    def after(group, **options):
        torch.manual_seed(3)
        model = nn.Linear(6, 3)
        step = step_of(model, group, torch.optim.Adadelta(model.parameters(), 0.5), **options)
        for batch in batches():
            step(*(batch if group is None else part(batch, group)))
        return model.weight
    expected = after(None)
    for options in ({}, SHARDED[1]):
        torch.testing.assert_close(after(group, **options), expected, rtol=1e-4, atol=1e-5)


def refused(expected, call):
    try:
        call()
    except telar.Error as error:
        assert expected in str(error), f"'{expected}' is not in: {error}"
        return
    raise AssertionError(f"not refused; expected: {expected}")


def other_values_are_refused(group):
    model = nn.Linear(6, 3)
    step = step_of(model, group)
    batch = part(batches()[0], group)
    step(*batch)
    with torch.no_grad():
        model.bias.fill_(group.rank)
    refused("'bias' has the norm 0 on rank 0 and", lambda: [step(*batch) for _ in range(2)])


def other_rates_are_refused(group):
    model = nn.Linear(6, 3)
    step = step_of(model, group, torch.optim.SGD(model.parameters(), 0.1 * (1 + group.rank)))
    refused("rank 0 makes step 1 with the learning rate 0.1, of samples (6,), (), and rank 1 makes step 1 with the learning rate 0.2",
            lambda: step(*part(batches()[0], group)))


def other_modules_are_refused(group):
    model = nn.Linear(6, 3 + group.rank)
    refused("rank 0 begins with 2 tensors", lambda: step_of(model, group)(*part(batches()[0], group)))


def other_trainings_are_refused(group):
    """What each rank but 0 has otherwise: numbers of the loss, constants, options of the optimizer and of the Step."""
    one, batch = float(group.rank > 0), part(batches()[0], group)
    shift = torch.full((3,), one)
    sgd = torch.optim.SGD

    def step(loss=nn.CrossEntropyLoss(), options={}, rates=(0.1, 0.1), **further):
        model = nn.Linear(6, 3)
        groups = [{"params": [parameter], "lr": rate} for parameter, rate in zip(model.parameters(), rates)]
        made = tt.Step(model, loss, sgd(groups, 0.1, **options), strategy="mirrored", replicas=1, group=group, **further)
        return lambda: made(*batch)

    refused("rank 0 captures a module and a loss", step(nn.CrossEntropyLoss(label_smoothing=0.1 * one)))
    refused("rank 0 captures a module and a loss", step(lambda model, x, y: nn.functional.cross_entropy(model(x) + shift, y)))
    refused("'momentum': 0.5", step(options={"momentum": 0.5 * one}))
    refused("'clip_norm': 0.5", step(clip_norm=0.5 * one))
    refused("the learning rate 0.1, 0.2", step(rates=(0.1, 0.1 + 0.1 * one)))
    refused("what telar.join() returns", lambda: tt.Step(nn.Linear(6, 3), nn.CrossEntropyLoss(), None, group="node1:7000"))
    refused("fit is for one process", lambda: tt.fit(nn.Linear(6, 3), nn.CrossEntropyLoss(), None, [batch], group=group))


def other_calls_are_refused(group):
    model = nn.Linear(6, 3)
    step = step_of(model, group)
    batch = part(batches()[0], group)
    step(*batch)
    refused("rank 0 evaluates a batch", lambda: step.evaluate(*batch) if group.rank == 0 else step.predict(batch[0]))


def host_parts_are_refused(group):
    """The mean over labels that count is not that of the parts' means."""
    model = nn.Linear(6, 3)
    step = tt.Step(model, nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])), torch.optim.SGD(model.parameters(), 0.1),
                   strategy="mirrored", replicas=1, group=group)
    refused("each process of a group sees only its part", lambda: step(*part(batches()[0], group)))


def a_lost_process_is_named(group):
    model = nn.Linear(6, 3)
    step = step_of(model, group)
    batch = part(batches()[0], group)
    step(*batch)
    if group.rank == group.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    refused(f"rank {group.size - 1} (", lambda: [step(*batch) for _ in range(3)])
    assert time.monotonic() - start < 5, "the others waited for more than 5 s"


CHECKS = [equals_one_process, divided_state_equals_one_process, averaged_parameters_equal_one_process, divided_layers_equal_one_process,
          parts_that_do_not_fit_are_refused, a_divided_state_is_whole_after_sync,
          divided_values_of_one_process_are_refused, statistics_are_of_the_whole_batch, pytorchs_optimizer_updates, other_values_are_refused, other_rates_are_refused,
          other_modules_are_refused, other_trainings_are_refused, other_calls_are_refused, host_parts_are_refused,
          a_lost_process_is_named]


def work(ports):
    torch.set_num_threads(1)
    for check, port in zip(CHECKS, ports):
        group = telar.join(f"127.0.0.1:{port}", PROCESSES, token=TOKEN, patience=20)
        assert group.size == PROCESSES
        check(group)
        if group.rank == 0:
            print(f"{check.__name__} passed", flush=True)


def free_ports(number):
    """Of this moment; sockets that are open together have different ones."""
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main():
    refused("cannot be reached", lambda: telar.join(f"203.0.113.1:{free_ports(1)[0]}", 2, token=TOKEN, patience=0.5, insecure_network=True))
    for expected, address, processes, patience in (
            ("at least 2 processes", "127.0.0.1:1", 1, 1), ("a whole number, not '2'", "127.0.0.1:1", "2", 1),
            ("a port that all processes know", "127.0.0.1:0", 2, 1), ("0 s or more, not nan", "127.0.0.1:1", 2, float("nan"))):
        refused(expected, lambda: telar.join(address, processes, patience=patience))
    words = [sys.executable, __file__, *map(str, free_ports(len(CHECKS)))]
    processes = [subprocess.Popen(words) for _ in range(PROCESSES)]
    try:
        codes = sorted(process.wait(240) for process in processes)
    finally:
        for process in processes:
            process.kill()
    if codes != [-signal.SIGKILL] + [0] * (PROCESSES - 1):
        sys.exit(f"the processes ended with {codes}")
    print(f"{len(CHECKS)} of {len(CHECKS)} checks passed")


if __name__ == "__main__":
    work([int(port) for port in sys.argv[1:]]) if sys.argv[1:] else main()
