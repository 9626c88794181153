"""Loops over a DataLoader: which samples each process draws, and the batches on which the sequential program
repeats what all ranks did.

A loop over a loader is a pass. The first batches of each pass are used (`--steps`); the order of all samples
is drawn nevertheless, so that a whole epoch can be checked.
"""
import hashlib
import inspect
import random
import sys

import torch
from torch.utils.data import (DataLoader, IterableDataset, RandomSampler, SequentialSampler,
                              SubsetRandomSampler)
from torch.utils.data.dataloader import default_collate
from torch.utils.data.distributed import DistributedSampler

from . import noise
from ..record import End

FULL_PASSES = 3  # of a loader; later ones use one batch
MOST_INDICES = 50_000_000  # an endless sampler is not drawn to its end


def base_index(dataset, index):
    """The number of a sample in the data set that all subsets are taken from."""
    while type(dataset).__name__ == "Subset" and isinstance(index, int):
        index, dataset = int(dataset.indices[index]), dataset.dataset
    return index


def copied(batch):
    if torch.is_tensor(batch):
        return batch.detach().clone()
    if isinstance(batch, dict):
        return {key: copied(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [copied(part) for part in batch]
    return batch


def joined(parts):
    """The batch of all ranks, from the batches that the default collate function made."""
    first = parts[0]
    if torch.is_tensor(first):
        return torch.cat(parts)
    if isinstance(first, dict):
        return {key: joined([part[key] for part in parts]) for key in first}
    if isinstance(first, (list, tuple)) and all(not isinstance(one, (str, bytes)) for one in first):
        return [joined(list(part)) for part in zip(*parts)]
    return [one for part in parts for one in part]


def rows(batch):
    """The samples of a batch as comparable values; of a stream, which has no indices."""
    if torch.is_tensor(batch):
        return [tuple(row.flatten().tolist()) for row in batch]
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)) and batch:
        return list(zip(*[rows(part) for part in batch]))
    return []


class Worker:
    """The random state of a loader's worker process. The harness fetches all samples in the main process."""

    def __init__(self, seed, loader):
        outer = self.swap(None)
        torch.manual_seed(seed)
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed % 2**32)
        if loader.worker_init_fn is not None:
            loader.worker_init_fn(0)
        self.state = self.swap(outer)

    @staticmethod
    def swap(state):
        numpy = sys.modules.get("numpy")
        before = (torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state())
        if state is not None:
            torch.set_rng_state(state[0])
            random.setstate(state[1])
            if numpy and state[2]:
                numpy.random.set_state(state[2])
        return before


class Pass:
    """What is observed of one loop over a loader."""

    def __init__(self, record, draws, loader, number, iterator):
        self.record, self.draws = record, draws
        self.loader, self.number = loader.telar_number, number
        self.active = True
        self.finished = False
        self.begun = self.given = record.tick()  # when the pass began, and its last batch was given
        self.trained = False
        self.fresh = False  # whether a batch was given that no backward pass has followed yet
        self.place = record.place()
        self.is_stream = isinstance(loader.dataset, IterableDataset)
        self.replace = bool(getattr(loader.sampler, "replacement", False))
        self.drop_last = bool(loader.drop_last)
        self.length = self.length_of(loader)
        self.samples = []  # the samples' numbers in the whole data set, of the whole epoch
        self.used = 0  # batches
        self.contents, self.drawn = [], []  # of the batches in use
        self.fetch = []  # for each batch: the generators that its samples were made with, and their states
        self.default_collate = loader.collate_fn is default_collate
        self.iterator = iterator
        self.limit = record.steps_of_a_pass if number < FULL_PASSES else 1
        self.source = None
        if record.replay is not None:
            self.source = [one["passes"].get((self.loader, number)) for one in record.replay]
        self.batch_size, self.in_order, self.batches = loader.batch_size or 1, True, []
        if not self.is_stream:
            self.plan(loader)
        seed = getattr(iterator, "_base_seed", None)
        self.worker = Worker(seed, loader) if loader.telar_workers and seed is not None else None

    @staticmethod
    def length_of(loader):
        try:
            return DataLoader.telar_len(loader)
        except TypeError:
            return None

    def plan(self, loader):
        """Draws the order of the whole epoch, and lets the iterator fetch its first batches, or those of all
        ranks."""
        batched = loader._auto_collation
        batches, order = [], []
        for batch in self.iterator._sampler_iter:
            indices = list(batch) if batched and isinstance(batch, (list, tuple)) else [batch]
            batches.append(batch)
            order.extend(indices)
            self.samples.extend(base_index(loader.dataset, one) for one in indices)
            if len(self.samples) >= MOST_INDICES:
                break
        self.batch_size = len(batches[0]) if batches and batched else 1
        self.in_order = all(isinstance(one, int) for one in order) and order == sorted(order)
        self.batches = batches[:self.limit]
        if self.source is not None and all(self.source):
            self.batches = [self.merged(batch) for batch in zip(*[one["batches"] for one in self.sources()])]
        self.iterator._sampler_iter = iter(self.batches)

    def sources(self):
        """The ranks' passes whose batches the sequential program repeats: of all, or, if every rank evaluates
        all samples or only looks at a batch, of rank 0."""
        return self.source if self.is_divided() and not self.source[0]["look"] else self.source[:1]

    def is_divided(self):
        """Whether each rank has its share of the samples."""
        first = self.source[0]
        return any(one["trained"] or sorted(one["samples"]) != sorted(first["samples"])
                   or one["rows"] != first["rows"] for one in self.source)

    @staticmethod
    def merged(batches):
        if isinstance(batches[0], (list, tuple)):
            return [one for batch in batches for one in batch]
        return batches[0]

    def next(self):
        record = self.record
        if self.source is not None and not all(self.source):
            raise_end(record, self)
        at = self.used
        limit = self.limit if self.source is None else min(one["used"] for one in self.sources())
        if at >= limit:
            return self.finish()
        if at == 0 and self.source is not None:
            record.before_pass(self)
        outer = Worker.swap(self.worker.state) if self.worker else None
        before = noise.states()
        self.draws.depth += 1  # what is drawn for samples is repeated with the samples
        try:
            batch = next(self.iterator)
        except StopIteration:
            self.finish()
        finally:
            self.draws.depth -= 1
            after = noise.states()
            if outer is not None:
                self.worker.state = Worker.swap(outer)
        self.used += 1
        self.given = record.tick()
        record.batch_given(self)
        drawn = noise.changed(before, after)
        self.fetch.append((drawn, before))
        replayed = None
        if self.source is None:
            self.contents.append(copied(batch) if self.default_collate else None)
            self.drawn.append([])
        else:
            batch = self.repeated(batch, at, drawn)
            replayed = [one["drawn"][at] for one in self.sources()]
        self.draws.next_batch(self, self.drawn[-1] if self.drawn else [], replayed,
                              bool(self.source) and len(self.sources()) > 1)
        record.last_yield = (noise.states(), self)
        return batch

    def repeated(self, batch, at, drawn):
        """The sequential program's batch: the very samples that the ranks had."""
        parts = [one["contents"][at] for one in self.sources()]
        if all(part is not None for part in parts):
            whole = joined(parts)
            return type(batch)(whole) if isinstance(batch, tuple) and type(batch) is tuple else whole
        if drawn:
            self.record.exclude("the samples are made with random numbers and an own collate_fn joins them")
        if self.is_stream:
            self.record.exclude("an own collate_fn joins the samples of a stream")
        return batch

    def finish(self):
        self.active, self.finished = False, True
        if self.draws.owner is self:
            self.draws.end()
        raise StopIteration

    def data(self):
        stream = [row for batch in self.contents for row in rows(batch)] if self.is_stream else []
        return {"loader": self.loader, "number": self.number, "trained": self.trained, "place": self.place,
                "stream": self.is_stream, "rows": stream, "samples": self.samples, "used": self.used,
                "batches": self.batches, "batch_size": self.batch_size, "in_order": self.in_order,
                "contents": self.contents, "drawn": self.drawn,
                "fetch": self.fetch, "replace": self.replace, "drop_last": self.drop_last,
                "length": self.length, "look": not self.trained and not self.finished and self.used == 1}


class PassIterator:
    """What the program loops over. When it is dropped, by a `break` for example, the pass is over."""

    def __init__(self, one):
        self.one = one

    def __iter__(self):
        return self

    def __len__(self):
        return len(self.one.iterator)

    def __next__(self):
        return self.one.next()

    def __del__(self):
        self.one.active = False
        if self.one.draws.owner is self.one:
            self.one.draws.end()


def raise_end(record, one):
    record.early_end = "pass %d of loader %d" % (one.number + 1, one.loader + 1)
    raise End


def cap(dataset, most):
    """Lets a data set have at most so many samples. Its class is replaced by a subclass of the same name."""
    kind = type(dataset)
    is_capped = isinstance(dataset, IterableDataset) or hasattr(kind, "telar_most")
    if not most or is_capped or not hasattr(kind, "__len__"):
        return
    members = {"__len__": lambda self: min(most, kind.__len__(self)), "telar_most": most}
    try:
        dataset.__class__ = type(kind.__name__, (kind,), members)
    except TypeError:  # a list, for example
        return


def limit_samples(most):
    """Caps the data sets that samplers are made for."""
    if not most:
        return
    for kind in (SequentialSampler, RandomSampler, DistributedSampler):
        def init(self, dataset, *arguments, create=kind.__init__, **options):
            cap(dataset, most)
            create(self, dataset, *arguments, **options)
        kind.__init__ = init
    create_subset = SubsetRandomSampler.__init__

    def init_subset(self, indices, *arguments, **options):
        create_subset(self, indices[:most], *arguments, **options)

    SubsetRandomSampler.__init__ = init_subset


def watch_loaders(record, draws):
    create, iterate, length = DataLoader.__init__, DataLoader.__iter__, DataLoader.__len__
    limit_samples(record.limit_samples)
    signature = inspect.signature(create)
    count = [0]

    def init_loader(self, *arguments, **options):
        given = signature.bind(self, *arguments, **options).arguments
        workers = given.get("num_workers", 0)
        for name in ("num_workers", "timeout", "persistent_workers", "prefetch_factor",
                     "multiprocessing_context"):
            given.pop(name, None)
        given.pop("self", None)
        cap(given["dataset"], record.limit_samples)
        create(self, **given)
        object.__setattr__(self, "telar_workers", workers)
        object.__setattr__(self, "telar_number", count[0])
        object.__setattr__(self, "telar_passes", 0)
        count[0] += 1

    def iterate_loader(self):
        draws.depth += 1  # the seed of its workers and the order of samples are not drawn by the program
        complete = draws.drawn is not None and draws.are_complete()
        iterator = iterate(self)
        one = Pass(record, draws, self, self.telar_passes, iterator)
        draws.depth -= 1
        if complete:
            draws.torch_state = noise.states()["torch"]
        object.__setattr__(self, "telar_passes", self.telar_passes + 1)
        record.passes.append(one)
        if one.length is not None:
            record.loader_lengths[one.loader] = one.length
        return PassIterator(one)

    def loader_length(self):
        """Of the sequential program: the number of the ranks' steps, where they share the samples."""
        number = getattr(self, "telar_number", None)
        if record.replay is not None:
            mine = [one for key, one in record.replay[0]["passes"].items() if key[0] == number]
            if mine and any(one["trained"] for one in mine) and mine[0]["length"] is not None:
                return mine[0]["length"]
        return length(self)

    DataLoader.telar_len = length
    DataLoader.__init__, DataLoader.__iter__, DataLoader.__len__ = init_loader, iterate_loader, loader_length


class Parts(tuple):
    """The parts of a tensor. Which of them a rank takes is recorded."""

    def __getitem__(self, index):
        if isinstance(index, int):
            self.note(index)
        return tuple.__getitem__(self, index)


def watch_parts(record):
    """Records the parts that the script takes of tensors: of their samples, where it has no loader."""
    split = torch.Tensor.tensor_split

    def observed(self, sections, dim=0):
        parts = split(self, sections, dim)
        if record.place() is None or not isinstance(sections, int):
            return parts
        parts = Parts(parts)
        bits = hashlib.blake2b(self.detach().cpu().contiguous().view(-1).numpy().tobytes(), digest_size=8)
        whole = {"place": record.place(), "size": self.size(dim), "parts": sections, "whole": bits.hexdigest()}
        parts.note = lambda index: record.parts.append(dict(whole, part=index))
        return parts

    torch.Tensor.tensor_split = observed
