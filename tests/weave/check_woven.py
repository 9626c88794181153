#!/usr/bin/env python3
"""Runs each script of the corpus in one process, and woven in two (DDP with gloo, or Horovod), and compares.

    check_woven.py [--target ddp|horovod] TELAR SCRIPT.py...

A script in a folder of `projects/` runs the project of that folder, which is woven as a whole.

Instruments inside the running programs check that:
  * the ranks start with equal weights and end with equal weights;
  * their samples are disjoint, and complete except for the sampler's padding;
  * the original, with the global batches of the two ranks and twice the learning rate, ends with the same
    weights and prints the same numbers. Then every averaged gradient was that of the global batch;
  * rank 1 prints nothing and writes no file;
  * the saved files have the same keys and types as the original's;
  * with --epochs divide each rank draws all samples in its own order, in half as many epochs;
  * a script whose weights cannot be equal ends with the original's loss or accuracy, within noise (0.15);
  * with --warmup the original, whose rate the check raises in the same way, ends with the same weights.
Comments in a script name what cannot be equal: `# not equal: reason` (batch norm, dropout, noise) and
`# other output: reason`; and what weave refuses for Horovod: `# not for horovod: reason`.
"""
import builtins
import gc
import importlib
import io
import os
import pickle
import random
import re
import runpy
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections import defaultdict

import numpy
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, RandomSampler
from torch.utils.data.distributed import DistributedSampler

from woven import NUMBER, name_of, noise_complaints, options_of, text_complaints, weave

WORLD = 2
SECONDS = 300  # the time limit of one program
real_save = torch.save
real_open = builtins.open


def warmed(epoch, warm_up):
    """The learning rate of an epoch, as a fraction of the rate after the warm-up."""
    return 1 / WORLD + (1 - 1 / WORLD) * min(epoch, warm_up) / warm_up


class Record:
    """What the instruments of one process have recorded."""

    def __init__(self):
        self.loaders = []
        self.batches = defaultdict(list)  # the batches by the number of their loader
        self.indices = []  # (number of samples, indices) for each pass of a sampler
        self.orders = []  # (number of samples, indices) for each pass of a sampler that yields all samples
        self.streams = []  # the samples of each pass over this rank's part of a stream
        self.started_equal = []
        self.optimizers = []
        self.writes = []

    def number(self, loader):
        for index, known in enumerate(self.loaders):
            if known is loader:
                return index
        return None

    def parameters(self):
        # Horovod's optimizer has the same parameters as the optimizer that it wraps.
        known = {id(p): p for o in self.optimizers for g in o.param_groups for p in g["params"]}
        return [p.detach().clone() for p in known.values()]


def watch(record, replay, warm_up):
    """Installs the instruments. `replay`: the batches of all ranks, on which the original trains; its
    learning rate rises for `warm_up` epochs to the rate of all ranks."""
    make_loader, iterate, length = DataLoader.__init__, DataLoader.__iter__, DataLoader.__len__

    def init_loader(self, *arguments, **options):
        make_loader(self, *arguments, **options)
        record.loaders.append(self)

    def copied(batch):
        if torch.is_tensor(batch):
            return batch.clone()
        if isinstance(batch, dict):
            return {key: copied(value) for key, value in batch.items()}
        return [copied(part) for part in batch]

    def joined(parts):
        if torch.is_tensor(parts[0]):
            return torch.cat(parts)
        if isinstance(parts[0], dict):
            return {key: joined([part[key] for part in parts]) for key in parts[0]}
        return [joined(list(part)) for part in zip(*parts)]

    passes = defaultdict(int)

    def iterate_loader(self):
        number = record.number(self)
        if replay is not None and number in replay:
            mine = passes[number]
            passes[number] += 1
            for group in (group for one in record.optimizers for group in one.param_groups if warm_up):
                group["lr"] *= warmed(mine, warm_up) / (warmed(mine - 1, warm_up) if mine else 1)
            for batches in zip(*replay[number][mine]):
                yield joined(list(batches))
            return
        stream = type(self.dataset).__name__ == "EveryNth"
        shared = isinstance(self.sampler, DistributedSampler) or stream
        seen = []
        if shared:
            record.batches[number].append(seen)
        for batch in iterate(self):
            if shared:
                seen.append(copied(batch))
            yield batch
        if stream:
            record.streams.append([tuple(row) for batch in seen for row in batch[0].tolist()])

    def loader_length(self):
        number = record.number(self)
        if replay is not None and number in replay:
            return len(replay[number][0][0])
        return length(self)

    DataLoader.__init__, DataLoader.__iter__, DataLoader.__len__ = init_loader, iterate_loader, loader_length

    draw = DistributedSampler.__iter__

    def draw_and_note(self):
        indices = list(draw(self))
        record.indices.append((len(self.dataset), indices))
        return iter(indices)

    DistributedSampler.__iter__ = draw_and_note

    shuffle = RandomSampler.__iter__

    def shuffle_and_note(self):
        indices = list(shuffle(self))
        record.orders.append((len(self.data_source), indices))
        return iter(indices)

    RandomSampler.__iter__ = shuffle_and_note

    make_optimizer = torch.optim.Optimizer.__init__

    def init_optimizer(self, params, defaults):
        make_optimizer(self, params, defaults)
        record.optimizers.append(self)
        if replay is not None and type(self).__name__ != "LBFGS":
            for group in self.param_groups:
                group["lr"] *= WORLD

    torch.optim.Optimizer.__init__ = init_optimizer

    wrapper = torch.nn.parallel.DistributedDataParallel
    wrap = wrapper.__init__

    def init_wrapper(self, module, *arguments, **options):
        wrap(self, module, *arguments, **options)
        mine = torch.cat([p.detach().double().flatten() for p in module.parameters()])
        first = mine.clone()
        dist.broadcast(first, 0)
        record.started_equal.append(bool(torch.equal(first, mine)))

    wrapper.__init__ = init_wrapper
    watch_horovod(record)

    def save(thing, file, *arguments, **options):
        if not isinstance(file, io.BytesIO):  # BytesIO: a tensor that is sent to another process
            record.writes.append(str(file))
        return real_save(thing, file, *arguments, **options)

    def open_and_note(file, mode="r", *arguments, **options):
        if set(mode) & set("wax+") and str(file) != os.devnull:
            record.writes.append(str(file))
        return real_open(file, mode, *arguments, **options)

    torch.save, builtins.open = save, open_and_note


def watch_horovod(record):
    """Records whether the ranks have equal weights after Horovod has broadcast those of rank 0."""
    hvd = sys.modules.get("horovod.torch")
    if hvd is None:
        return
    send = hvd.broadcast_parameters

    def send_and_note(params, root_rank):
        send(params, root_rank)
        mine = torch.cat([p.detach().double().flatten() for p in params.values()])
        parts = hvd.allgather(mine.unsqueeze(0))
        record.started_equal.append(bool(all(torch.equal(parts[0], part) for part in parts)))

    hvd.broadcast_parameters = send_and_note


def in_process(result, work):
    """Forks. The child calls `work()` and saves its result in the file `result`. Returns the process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        torch.set_num_threads(1)
        # A script's process would end without the collection, during which gloo's threads may still be busy
        # (docs/weave.md).
        gc.disable()
        real_save(work(), result)
        code = 0
    except BaseException:  # including SystemExit, which the parent must see
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


def stand_in(name, **members):
    """Replaces a module that scripts import, if it is not installed. The check only observes its files."""
    try:
        importlib.import_module(name)
    except ImportError:
        module = types.ModuleType(name)
        vars(module).update(members)
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)


def stand_ins():
    def write(path, text):
        with open(path, "w") as file:
            file.write(text)

    class SummaryWriter:
        def __init__(self, folder):
            os.makedirs(folder, exist_ok=True)
            self.log_dir = folder
            self.path = os.path.join(folder, "events")

        def add_scalar(self, name, value, step):
            write(self.path, f"{name} {value} {step}")

        def close(self):
            pass

    stand_in("torch.utils.tensorboard", SummaryWriter=SummaryWriter)
    stand_in("matplotlib", use=lambda backend: None)
    stand_in("matplotlib.pyplot", plot=lambda *values: None, savefig=lambda path: write(path, "plot"))


def run(script, arguments, replay, warm_up=0):
    record = Record()
    stand_ins()
    watch(record, replay, warm_up)
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)
    sys.argv = [script] + arguments
    sys.path.insert(0, os.path.dirname(script))
    out = io.StringIO()
    sys.stdout = out
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    finally:
        sys.stdout = sys.__stdout__
    return {
        "out": out.getvalue(),
        "batches": dict(record.batches),
        "indices": record.indices,
        "orders": record.orders,
        "streams": record.streams,
        "started_equal": record.started_equal,
        "parameters": record.parameters(),
        "writes": record.writes,
    }


def wait(children, seconds):
    """Waits for the children and kills those that take too long. Returns whether all succeeded in time."""
    end = time.time() + seconds
    codes = {}
    while len(codes) < len(children) and time.time() < end:
        for child in children:
            if child not in codes:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    codes[child] = status
        if any(codes.values()):
            break
        time.sleep(0.01)
    for child in children:
        if child not in codes:
            os.kill(child, 9)
            os.waitpid(child, 0)
    return len(codes) == len(children) and not any(codes.values())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def form(thing):
    """The keys and types of a file's content."""
    if isinstance(thing, dict):
        return {key: form(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [form(value) for value in thing]
    return tuple(thing.shape) if torch.is_tensor(thing) else type(thing).__name__


def form_of_file(path):
    try:
        return form(torch.load(path))
    except (AttributeError, ModuleNotFoundError, pickle.UnpicklingError) as missing:
        # The file contains a whole model; its class is not defined here. The message names the class.
        return str(missing)


def same_text(one, other):
    """Whether the words are equal and the numbers differ only by the order of summation."""
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other))
    return all(abs(float(a) - float(b)) <= 2e-3 * max(1.0, abs(float(a))) for a, b in pairs)


def with_ddp(woven, where, results):
    """Runs the woven script with torch's process group, each rank in a fork of this process. Returns whether
    all ranks succeeded."""
    port = str(free_port())

    def rank(number):
        def work():
            os.chdir(where)
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(number),
                              LOCAL_RANK=str(number), WORLD_SIZE=str(WORLD))
            return run(woven, [], None)
        return work

    return wait([in_process(results[number], rank(number)) for number in range(WORLD)], SECONDS)


def with_horovod(woven, where, results):
    runner = os.path.join(os.path.dirname(sys.executable), "horovodrun")
    command = [runner, "--gloo", "--network-interfaces", "lo", "-np", str(WORLD), sys.executable,
               os.path.abspath(__file__), "--inside", woven, where] + results
    answer = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            timeout=SECONDS)
    if answer.returncode != 0:
        print("\n".join(line for line in answer.stderr.splitlines() if "]<stderr>:" in line)[-1500:],
              file=sys.stderr)
    return answer.returncode == 0


def inside(woven, where, results):
    import horovod.torch as hvd

    hvd.init()
    torch.set_num_threads(1)
    os.chdir(where)
    real_save(run(woven, [], None), results[hvd.rank()])


def complaints_of_orders(single, ranks):
    """Checks that each rank draws all samples in its own order, and that the ranks divide the epochs."""
    complaints = []
    if any(len(orders) != -(-len(single) // WORLD) for orders in ranks):
        complaints.append(
            f"the ranks make {[len(orders) for orders in ranks]} epochs, the original {len(single)}")
    if any(sorted(order) != list(range(size)) for orders in ranks for size, order in orders):
        complaints.append("a rank does not see all samples in an epoch")
    if any(one == other for one, other in zip(*ranks)):
        complaints.append("two ranks draw the samples in the same order")
    return complaints


def check(telar, script, folder, target):
    """Checks one script. Returns the complaints, or None if weave refuses the script for the target."""
    source = real_open(script).read()
    asked = [telar, "weave", "--target", target] + options_of(source)
    answer, woven = weave(asked, script, folder)
    if target == "horovod" and answer.returncode == 3 and "# not for horovod:" in source:
        return None
    if answer.returncode != 0:
        return [f"telar weave: {answer.returncode}: {answer.stderr.strip()}"]
    where = {"woven": os.path.join(folder, "two"), "original": os.path.join(folder, "one")}
    for path in where.values():
        os.mkdir(path)
    results = [os.path.join(folder, f"rank{number}") for number in range(WORLD)]
    if not (with_horovod if target == "horovod" else with_ddp)(woven, where["woven"], results):
        return ["the woven script fails or does not end"]
    ranks = [torch.load(result) for result in results]
    complaints = []
    if not all(all(one["started_equal"]) and one["started_equal"] for one in ranks):
        complaints.append("the ranks do not start with equal weights")
    for one, other in zip(*(result["parameters"] for result in ranks)):
        if not torch.equal(one, other):
            complaints.append(f"the ranks end with different weights, by {(one - other).abs().max():.2g}")
            break
    for (size, one), (_, other) in zip(*(result["indices"] for result in ranks)):
        padding = -size % WORLD
        if set(one) | set(other) != set(range(size)) or len(one) + len(other) != size + padding:
            complaints.append("the samples of the ranks are not disjoint and complete")
            break
    for one, other in zip(*(result["streams"] for result in ranks)):
        if len(one) != len(other) or set(one) & set(other):
            complaints.append("the samples of a stream are not disjoint or the ranks read different numbers of them")
            break
    if ranks[1]["out"]:
        complaints.append(f"rank 1 prints {ranks[1]['out'][:80]!r}")
    if ranks[1]["writes"]:
        complaints.append(f"rank 1 writes {ranks[1]['writes']}")

    options = options_of(source)
    warm_up = int(options[options.index("--warmup") + 1]) if "--warmup" in options else 0
    replay = {}
    if "# not equal:" not in source:
        for number in ranks[0]["batches"]:
            replay[number] = list(zip(*(result["batches"][number] for result in ranks)))
    one_result = os.path.join(folder, "one_process")

    def original():
        os.chdir(where["original"])
        return run(os.path.abspath(script), [], replay, warm_up)

    script = os.path.abspath(script)
    if not wait([in_process(one_result, original)], SECONDS):
        return complaints + ["the original script fails or does not end"]
    single = torch.load(one_result)
    if "divide" in options:
        complaints += complaints_of_orders(single["orders"], [result["orders"] for result in ranks])
    if replay:
        if len(single["parameters"]) != len(ranks[0]["parameters"]):
            complaints.append("the programs optimize different numbers of parameters")
        for one, other in zip(single["parameters"], ranks[0]["parameters"]):
            if not torch.allclose(one, other, rtol=1e-3, atol=1e-5):
                complaints.append(
                    f"the weights differ from the single process's by {(one - other).abs().max():.2g}")
                break
        if "# other output:" not in source and not same_text(single["out"], ranks[0]["out"]):
            complaints.append(f"prints {ranks[0]['out']!r}, the original {single['out']!r}")
    if not replay and "# other output:" not in source:
        complaints += noise_complaints(single["out"], ranks[0]["out"])
    for path in sorted(os.listdir(where["original"])):
        if not os.path.exists(os.path.join(where["woven"], path)):
            complaints.append(f"does not write {path}")
        elif path.endswith((".pt", ".pth")):
            forms = [form_of_file(os.path.join(where[which], path)) for which in ("original", "woven")]
            if forms[0] != forms[1]:
                complaints.append(f"{path} has other keys or types than the original's: {forms[1]}")
    complaints += text_complaints(telar, asked, script, woven, folder)
    return complaints


def main():
    if sys.argv[1] == "--inside":
        return inside(sys.argv[2], sys.argv[3], sys.argv[4:])
    target = "ddp"
    if sys.argv[1] == "--target":
        target = sys.argv[2]
        del sys.argv[1:3]
    telar, scripts = os.path.abspath(sys.argv[1]), sys.argv[2:]
    failed = refused = 0
    for script in scripts:
        begin = time.time()
        with tempfile.TemporaryDirectory() as folder:
            complaints = check(telar, script, folder, target)
        if complaints is None:
            refused += 1
            print(f"refused         {name_of(script)}", flush=True)
            continue
        print(f"{'FAILED' if complaints else 'ok':6} {time.time() - begin:5.1f} s  {name_of(script)}",
              flush=True)
        for complaint in complaints:
            print("       " + complaint, flush=True)
        failed += bool(complaints)
    count = len(scripts) - refused
    print(f"{count - failed} of {count} scripts passed" + (f", {refused} are refused" if refused else ""))
    return sys.exit(failed > 0)


if __name__ == "__main__":
    main()
