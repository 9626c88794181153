"""Loops over a tf.data.Dataset, by the program or by fit() and evaluate(): which samples each rank has, and the
batches on which the sequential program repeats what all ranks did.

A loop over a dataset is a pass; so is each epoch of fit(). The first batches of each are used (`--steps`); the others are drawn
nevertheless, so that a whole epoch can be checked: a loop of the program ends early, and fit() and evaluate()
do not compute with them.
"""
import sys
import time
import weakref

import tensorflow as tf
from tensorflow.python.distribute import input_lib

from ..record import End
from . import distribution, values

FULL_PASSES = 3  # of a place of the script; later ones use one batch
CALLS = 10_000  # the numbers of the datasets of each call of fit(), and of evaluate() before the next one
MOST_SECONDS = 60  # for drawing the samples of an epoch that are not used
MOST_SAMPLES = 2_000_000


class Share:
    """A rank's part of a pass."""

    def __init__(self, one, rank):
        self.whole, self.rank = one, rank
        self.samples = []
        self.contents, self.drawn = [], []  # of the batches in use
        self.batch_size = 0

    loader = property(lambda self: self.whole.loader)
    number = property(lambda self: self.whole.number)
    active = property(lambda self: self.whole.active)
    begun = property(lambda self: self.whole.begun)
    given = property(lambda self: self.whole.given)

    @property
    def fresh(self):
        return self.whole.fresh

    def note(self, batch, is_used):
        """Records a batch of this rank."""
        if len(self.samples) < MOST_SAMPLES:
            self.samples += values.samples_of(batch)
        else:
            self.whole.complete = False
        if is_used:
            self.batch_size = self.batch_size or values.size_of(batch)
            self.contents.append(values.copied(batch))
            self.drawn.append([])

    def data(self):
        one = self.whole
        return {"loader": one.loader, "number": one.number, "trained": one.trained, "place": one.place,
                "stream": False, "rows": [], "samples": self.samples, "used": one.used,
                "batches": [], "batch_size": self.batch_size, "in_order": False, "by_content": True,
                "complete": one.complete and one.finished, "contents": self.contents, "drawn": self.drawn,
                "fetch": [], "replace": False, "drop_last": True, "length": one.length,
                "look": one.kind == "loop" and not (one.trained or one.finished) and one.used == 1}


class Pass:
    """What is observed of one loop over a dataset. `kind`: "loop" of the program, "fit" or "evaluate"."""

    def __init__(self, passes, loader, number, iterator, kind, place, earlier):
        self.passes, self.loader, self.number = passes, loader, number
        self.iterator, self.kind, self.place = iterator, kind, place
        self.is_late = earlier >= FULL_PASSES  # there were so many of that place
        self.record = passes.records[0]
        self.active, self.finished, self.trained, self.fresh = True, False, False, False
        self.complete = True
        self.begun = self.given = self.record.tick()
        self.used = 0  # batches
        self.length = passes.cardinality(loader)
        self.shares = [Share(self, rank) for rank in range(len(passes.records))]
        self.source = None
        if self.record.replay is not None:
            self.source = [one["passes"].get((loader, number)) for one in self.record.replay]
            if self.source[0] is not None and not self.source[0]["trained"] and not all(self.source):
                self.source = self.source[:1]  # rank 0 alone evaluates

    def sources(self):
        """The ranks' passes whose batches the sequential program repeats: of all, or, if every rank evaluates
        all samples or only looks at a batch, of rank 0."""
        return self.source if self.is_divided() and not self.source[0]["look"] else self.source[:1]

    def is_divided(self):
        first = self.source[0]
        return any(one["trained"] or one["samples"] != first["samples"] for one in self.source)

    def limit(self):
        """The number of batches that are used."""
        if self.source is not None:
            return min(one["used"] for one in self.sources())
        return 1 if self.is_late else self.record.steps_of_a_pass

    def next(self):
        if self.source is not None and not all(self.source):
            self.record.early_end = "pass %d of dataset %d" % (self.number + 1, self.loader + 1)
            raise End
        is_used = self.used < self.limit()
        if not is_used and self.kind == "loop":
            self.draw_the_rest()
            return self.finish()
        try:
            batch = next(self.iterator)
        except StopIteration:
            return self.finish()
        self.passes.skipping = not is_used
        batch = self.noted(batch, is_used)
        if is_used:
            self.given = self.record.tick()
            self.fresh = True
            self.passes.current = self
        return batch

    def noted(self, batch, is_used):
        """Records the batch. Returns it, or what the sequential program has in its place."""
        content = batch[1] if self.is_counted(batch) else batch
        for share in self.shares:
            part = tf.nest.map_structure(lambda value: distribution.share_of(value, share.rank), content)
            share.note(part, is_used)
        if not is_used:
            return batch
        at = self.used
        self.used += 1
        if self.source is None:
            return batch
        parts = [one["contents"][at] for one in self.sources()]
        if any(part is None for part in parts):
            self.record.exclude("batches of ragged or sparse tensors are not joined")
            return batch
        joined = values.joined(parts)
        return (batch[0], joined) if content is not batch else joined

    def is_counted(self, batch):
        """Whether the sequential program counts the batches in the dataset (`dataset.enumerate()`), and the woven
        one in the loop, because a distributed dataset cannot."""
        theirs = self.source[0]["contents"] if self.source is not None else []
        if not theirs or theirs[0] is None or not isinstance(batch, tuple) or len(batch) != 2:
            return False
        return values.form_of(batch) != values.form_of(theirs[0]) and values.form_of(batch[1]) == values.form_of(theirs[0])

    def draw_the_rest(self):
        """Draws the samples of the epoch that are not used."""
        end = time.monotonic() + MOST_SECONDS
        infinite = self.passes.cardinality(self.loader) == tf.data.INFINITE_CARDINALITY
        while not infinite and time.monotonic() < end:
            try:
                batch = next(self.iterator)
            except StopIteration:
                return
            self.noted(batch, False)
        self.complete = False

    def finish(self):
        self.active, self.finished = False, True
        raise StopIteration


class PassIterator:
    """What a loop over a dataset uses. Its pass begins with the first batch: Keras 3 makes iterators that it does
    not use. When it is dropped, by a `break` for example, the pass is over."""

    def __init__(self, iterator, begin):
        self.iterator, self.begin = iterator, begin
        self.one = None

    def __iter__(self):
        return self

    def __next__(self):
        if self.one is None:
            self.one = self.begin()
        if self.one.kind != "loop":  # Keras 3 takes StopIteration for the end of some steps, not of the dataset
            return self.get_next()
        return self.one.next()

    def get_next(self):
        if self.one is None:
            self.one = self.begin()
        try:
            return self.one.next()
        except StopIteration:
            raise tf.errors.OutOfRangeError(None, None, "the dataset has no more batches") from None

    def __getattr__(self, name):
        return getattr(self.iterator, name)

    def __del__(self):
        if self.one is not None:
            self.one.active = False


class Passes:
    """The passes of a process, and which of Keras' methods is under way."""

    def __init__(self, records):
        self.records = records
        self.datasets, self.counts = {}, {}  # by number
        self.loops = {}  # the number of the dataset of a loop of the script, by its place
        self.fits, self.evaluations = 0, 0  # calls of fit(), and those of evaluate() since the last of them
        self.places = {}  # how many passes each place of the script has made
        # Of the methods of models that are under way: which, whether it reads datasets to the end, and the number of its dataset.
        self.kinds = []
        self.depth = 0  # of datasets whose iterators are being made: a distributed one has others
        self.of_fit = weakref.WeakSet()  # iterators
        self.current = None  # the pass that gave the last batch in use
        self.skipping = False  # whether fit() or evaluate() must not compute with the batch that it has

    def cardinality(self, loader):
        """The number of batches of a dataset; negative if it is infinite or unknown."""
        dataset = self.datasets[loader]
        dataset = getattr(dataset, "_original_dataset", dataset)
        if not hasattr(dataset, "cardinality"):
            return tf.data.UNKNOWN_CARDINALITY
        return int(dataset.cardinality() if callable(dataset.cardinality) else dataset.cardinality)

    def kind_here(self):
        """What the loop that begins is: of the program, of a method of a model, or a library's own affair."""
        frame, found = sys._getframe(2), None
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(self.records[0].folder + "/"):
                return found or "loop"
            if "/tensorflow/" in name or "/keras/" in name or "/tf_keras/" in name:
                if frame.f_code.co_name == "_maybe_symbolic_build":  # Keras 3 looks at a batch, but not always
                    return "other"
                kind = self.kinds[-1][0] if self.kinds else "other"
                found = found or (kind if kind in ("fit", "evaluate") else "other")
            frame = frame.f_back
        return found or "other"

    def number_of(self, dataset):
        return next((number for number, known in self.datasets.items() if known is dataset), None)

    def numbered(self, dataset, kind):
        """The number of a dataset, the same in the woven and the sequential program, although one of them may make
        it anew each time, as by `dataset.enumerate()`. Each loop of the script has a number, and each call of
        fit() or evaluate(). Those of evaluate() count from the last fit() on, because rank 0 may evaluate alone."""
        if kind == "loop":
            number = self.loops.setdefault(str(self.records[0].place()), len(self.loops))
        else:
            number = self.kinds[0][2] + (1 if kind == "evaluate" and self.kinds[0][0] == "fit" else 0)
        self.datasets.setdefault(number, dataset)
        self.counts.setdefault(number, 0)
        return number

    def number_of_call(self, kind):
        if kind == "fit":
            self.fits, self.evaluations = self.fits + 1, 0
            return CALLS * self.fits
        self.evaluations += 1
        return CALLS * self.fits + CALLS // 2 + self.evaluations

    def observed(self, dataset, iterator, kind):
        def begin():
            return self.new_pass(self.numbered(dataset, kind), iterator, kind)

        one = PassIterator(iterator, begin)
        if kind == "fit":
            self.of_fit.add(one)
        return one

    def new_pass(self, loader, iterator, kind):
        place = self.records[0].place()
        earlier = self.places.get((kind, str(place)), 0)
        one = Pass(self, loader, self.counts[loader], iterator, kind, place, earlier)
        self.places[kind, str(place)] = earlier + 1
        self.counts[loader] += 1
        for record, share in zip(self.records, one.shares):
            record.passes.append(share)
        return one

    def begin_epoch(self):
        """fit() begins another epoch, perhaps with the same iterator."""
        for iterator in list(self.of_fit):
            old = iterator.one
            if old is not None and old.active and old.shares[0].samples:
                old.active = False
                iterator.one = None

    def end_epoch(self):
        """An epoch of fit(), or evaluate(), is over. Without a number of steps, they read all samples."""
        kind, reads_all, _ = self.kinds[-1] if self.kinds else ("other", False, None)
        if kind == "fit":
            over = [iterator.one for iterator in self.of_fit if iterator.one is not None and iterator.one.active]
        else:
            over = [share.whole for share in self.records[0].passes if share.whole.kind == kind][-1:]
        for one in over:
            one.finished = one.finished or reads_all

    def note_training(self):
        """A step of an optimizer: its batches are those of training."""
        for share in self.records[0].trained_now():
            share.whole.trained, share.whole.fresh = True, False


def watch_datasets(passes):
    def observed(iterate):
        def iterate_dataset(self):
            kind = passes.kind_here() if tf.executing_eagerly() and passes.depth == 0 else "other"
            passes.depth += 1
            try:
                iterator = iterate(self)
            finally:
                passes.depth -= 1
            return iterator if kind == "other" else passes.observed(self, iterator, kind)
        return iterate_dataset

    tf.data.Dataset.__iter__ = observed(tf.data.Dataset.__iter__)
    for name in ("DistributedDataset", "DistributedDatasetsFromFunction"):
        kind = getattr(input_lib, name)
        kind.__iter__ = observed(kind.__iter__)


def watch_lengths(passes):
    """In the sequential program, the length of a dataset of training is the number of the ranks' steps."""
    length = tf.data.Dataset.__len__

    def dataset_length(self):
        replay = passes.records[0].replay
        number = passes.number_of(self)
        if replay is not None and number is not None:
            trained = [one for key, one in replay[0]["passes"].items() if key[0] == number and one["trained"]]
            if trained and trained[0]["length"] >= 0:
                return trained[0]["length"]
        return length(self)

    tf.data.Dataset.__len__ = dataset_length


def watch_models(passes):
    """Lets fit() and evaluate() compute with the batches in use only."""
    model = tf.keras.Model

    def observed(kind, method):
        def run(self, *arguments, **options):
            reads_all = not options.get("steps_per_epoch" if kind == "fit" else "steps")
            passes.kinds.append((kind, reads_all, passes.kinds[0][2] if passes.kinds else passes.number_of_call(kind)))
            replaced = [name for name in ("train_step", "test_step") if name not in vars(self)]
            for name in replaced:
                object.__setattr__(self, name, only_used(passes, getattr(self, name)))
            try:
                result = method(self, *arguments, **options)
                if kind == "evaluate":
                    passes.end_epoch()
                return result
            finally:
                for name in replaced:
                    object.__delattr__(self, name)
                passes.kinds.pop()
        return run

    for kind in ("fit", "evaluate", "predict"):
        setattr(model, kind, observed(kind, getattr(model, kind)))
    callbacks = tf.keras.callbacks.CallbackList
    on_epoch_begin = callbacks.on_epoch_begin

    def begin_epoch(self, epoch, logs=None):
        passes.begin_epoch()
        return on_epoch_begin(self, epoch, logs)

    on_epoch_end = callbacks.on_epoch_end

    def end_epoch(self, epoch, logs=None):
        passes.end_epoch()
        return on_epoch_end(self, epoch, logs)

    callbacks.on_epoch_begin, callbacks.on_epoch_end = begin_epoch, end_epoch


def only_used(passes, step):
    last = {}

    def of_batch_in_use(*arguments, **options):
        rank = distribution.replica()
        if passes.skipping and rank in last:
            return last[rank]
        last[rank] = step(*arguments, **options)
        return last[rank]

    return of_batch_in_use
