"""A module that PyTorch computes, while Telar divides batches, exchanges gradients and updates.

Each worker has a copy of the module, whose parameters are Telar's memory. As with PyTorch's DistributedDataParallel, it
computes the loss of its share of the batch, and batch norm takes the statistics of the share. What a step changes beside the
trained parameters, running statistics and whatever else is not trained, becomes the mean of the workers'.
"""

import copy
import weakref

import numpy
import torch

from telar import _native
from telar.comparison import is_same_loss, ratio, squares
from telar.torch.attributes import Attributes, untouched
from telar.torch.capture import Captured, WithLoss, begin_training, drawn, example, first_tensor, modes_kept
from telar.torch.check import FixedDraws, WithoutChance
from telar.torch.counted import DividedByAll, Meeting, OfAPart
from telar.torch.fingerprint import hook_of_a_layer
from telar.torch.following import WORKER
from telar.torch.own import loss_of, one_number
from telar.torch.values import Refusal

SCALE = 2.0**10  # of a loss, to see whether its gradients follow
MOST_SIZES = 16  # of batches that are compared with their parts
ERROR = 1e-5  # relative, of a parameter's gradient that is put together from those of parts
ERROR_OF_SINGLE = 1e-2  # the same where it cannot be computed in float64
LEAST = 1e-5  # of the norm of all gradients: a smaller one counts as so large


class External:
    """The model of a module and its loss.

    batch: an example; trained: names of the parameters that are trained; workers: how many compute at the same time;
    threads: of each worker, or 0 for those that PyTorch has; coupled: whether samples may depend on each other in training, as by
    a batch norm, which then has the statistics of its worker's part; alone: whether each worker has statistics of its own.
    """

    def __init__(self, module, loss, batch, trained, workers, threads, coupled=True, alone=False):
        self._batches, self._meetings, self._starts, self._end = {}, {}, [], 0
        self._threads, self._workers, self._alone = threads, workers, alone
        self._whole = WithLoss(module, loss)
        hook = hook_of_a_layer(module) if workers > 1 else None
        if hook is not None:
            raise Refusal(f"{hook} would be called by each worker, with its part of the batch")
        parameters = dict(module.named_parameters())
        self._trained = [name for name in parameters if name in trained]
        batch = example(batch)
        self._statistics, calls, sample = self._tried(module, batch)
        for name in self._trained:
            if parameters[name].dtype != torch.float32:
                raise Refusal(f"the parameter '{name}' is {parameters[name].dtype}; Telar updates float32 only")
        tensors = {name: parameters[name] for name in self._trained}
        tensors |= {name: tensor for name, tensor in self._others(module).items() if name in self._statistics}
        described = [(name, name in self._trained, as_array(tensor)) for name, tensor in tensors.items()]
        self._seen, self._sizes, self._coupled = 0, {len(batch[0])}, coupled
        self.mean = workers > 1 and self._is_mean(batch)
        if workers > 1:
            self._require_no_limits(batch)
            self._require_no_memory(batch)
            if not coupled:
                self._require_apart(batch)
        compute = weakref.WeakMethod(self._compute)  # otherwise the model and this object would keep each other
        model = _native.Model.external(type(module).__name__, lambda *call: compute()(*call), described, list(sample or [1]))
        self._predicts = sample is not None
        self._free = [self._new_worker() for _ in range(workers)]
        self.captured = Captured(model, [], {}, tensors, set(tensors), self.mean, draws=True, training_draws=True, same_in_evaluation=False,
                                 output_is_tensor=False, calls=calls)

    def arrays(self, batch):
        """The inputs of Telar's model for a batch, the numbers of its samples among all batches since clear()."""
        start = self._end
        self._batches[start] = batch
        self._meetings[start] = Meeting(len(batch[0]))
        self._starts.append(start)
        self._end += len(batch[0])
        return {"x": numpy.arange(start, self._end, dtype=numpy.int32)}

    def forget(self, number):
        """No sample of this batch since clear() will be asked for again."""
        del self._batches[self._starts[number]], self._meetings[self._starts[number]]

    def clear(self):
        self._batches, self._meetings, self._starts, self._end = {}, {}, [], 0

    def require_prediction(self):
        if not self._predicts:
            raise Refusal("the module's output has not the samples in axis 0, so it cannot be put together from those of the workers")

    def _others(self, module):
        """The parameters that are not trained, and the buffers."""
        return {name: tensor for name, tensor in (*module.named_parameters(), *module.named_buffers()) if name not in self._trained}

    def _tried(self, module, batch):
        """What a training step changes: names of tensors, and of counters by how much; the shape of a sample's prediction, or None."""
        whole, others = self._whole, self._others(module)
        before = {name: tensor.detach().clone() for name, tensor in others.items()}
        versions = {name: tensor._version for name, tensor in others.items()}
        with modes_kept(whole), untouched(whole), torch.enable_grad():
            begin_training(whole)
            loss, prediction = whole(*batch)
            changed = [name for name, tensor in others.items()
                       if tensor._version != versions[name] or not torch.equal(tensor, before[name])]
            counts = {name: int(others[name] - before[name]) for name in changed if name.endswith("num_batches_tracked")}
        one_number(loss)
        changed = [name for name in changed if name not in counts]
        self._alike = {name for name in changed if f"{name.rpartition('.running_')[0]}.num_batches_tracked".removeprefix(".") not in counts}
        if self._workers > 1:
            self._require_same_of_parts(module, batch, self._alike)
        if self._workers == 1:  # for a checkpoint, which has others apart
            changed = [name for name in changed if before[name].dtype == torch.float32]
        for name in changed:
            if before[name].dtype != torch.float32:
                raise Refusal(f"a step changes '{name}' of {before[name].dtype}; Telar's workers can agree on float32 only")
        fits = prediction is not None and prediction.dim() > 0 and len(prediction) == len(batch[0])
        return changed, counts, tuple(prediction.shape[1:]) if fits else None

    def _require_same_of_parts(self, module, batch, changed):
        """Raises Refusal if a step changes tensors by samples that a worker has not. Statistics of batch norms may."""
        found = []
        for part in (batch, [tensor[:max(1, len(tensor) // 2)] for tensor in batch]) if changed else ():
            with modes_kept(self._whole), untouched(self._whole), torch.enable_grad():
                begin_training(self._whole)
                self._whole(*part)
                found.append({name: self._others(module)[name].detach().clone() for name in changed})
        for name in changed:
            if not torch.allclose(found[0][name], found[1][name], rtol=1e-5):
                raise Refusal(f"a step changes '{name}' by the samples of the batch, of which each worker has others")

    def _require_no_limits(self, batch):
        """Raises Refusal for a backward that is not linear: its result for the whole batch does not follow from those of parts."""
        found = []
        for scale in (1.0, SCALE):
            with modes_kept(self._whole), untouched(self._whole), torch.enable_grad():
                begin_training(self._whole)
                (one_number(self._whole(*batch)[0]) * scale).backward()
                sparse = next((name for name, p in self._whole.named_parameters() if p.grad is not None and p.grad.is_sparse), None)
                if sparse is not None:
                    raise Refusal(f"the gradient of '{sparse.removeprefix('model.')}' is sparse, and workers exchange whole ones")
                found.append({name: p.grad / scale for name, p in self._whole.named_parameters() if p.grad is not None})
        for name, gradient in found[0].items():
            if not torch.allclose(gradient, found[1][name], rtol=1e-3, atol=1e-4 * float(gradient.abs().max()), equal_nan=True):
                raise Refusal(f"the gradient of '{name.removeprefix('model.')}' does not grow with the loss, as where a function of its own "
                              "or a hook limits it, so it cannot be put together from those of the workers")

    def _require_no_memory(self, batch):
        """Raises Refusal if forward changes attributes, which each worker's copy has for itself. A batch norm of the share may keep tensors."""
        with modes_kept(self._whole), untouched(self._whole), torch.enable_grad():
            begin_training(self._whole)
            for _ in range(2):  # the first may fill what the other only reads
                attributes, before = Attributes(self._whole), drawn()
                self._whole(*batch)
            name, draws = attributes.changed(with_tensors=not self._coupled), drawn() != before
        if draws:
            raise Refusal("the module or the loss draws numbers from Python's random or numpy.random, and each worker would draw others")
        if name is not None:
            raise Refusal(f"forward changes the attribute '{name.removeprefix('model.')}', which each worker's copy of the module would have "
                          "for itself" + ("" if self._coupled else " (batch_norm=\"local\" allows that of tensors)"))

    def _require_apart(self, batch):
        """Raises Refusal if samples depend on each other, or on their places, in training."""
        try:
            with FixedDraws(), WithoutChance():
                is_apart = self._is_mean(batch, training=True) == self.mean
        except (Refusal, ValueError):  # a batch norm of a single sample
            is_apart = False
        if not is_apart:
            raise Refusal("its samples depend on each other or on their places in training, as by a batch norm, which would have the "
                          "statistics of a worker's part of the batch (batch_norm=\"local\" allows that)")

    def _is_mean(self, batch, training=False):
        """Whether the loss of a batch and its gradients are the means of those of its parts, not their sums. Raises Refusal if they are neither."""
        size, found = len(batch[0]), set()
        cut = max(1, size // 3)
        for lengths in ([cut, size - cut], [len(part) for part in torch.arange(size).tensor_split(self._workers) if len(part)]):
            loss, gradients, parts = self._of_parts(self._whole, batch, lengths, training)
            sums = {True: sum(one * length for (one, _), length in zip(parts, lengths)) / size, False: sum(one for one, _ in parts)}
            mean = next((mean for mean in sums if is_same_loss(sums[mean], loss)), None)
            if mean is None:
                raise Refusal(f"the loss of the batch, {loss:.6g}, is neither the mean nor the sum of those of its parts, "
                              f"{' and '.join(f'{one:.6g}' for one, _ in parts)}, so workers cannot compute it in shares")
            weights = [length / size if mean else 1.0 for length in lengths]
            error = error_of(gradients, parts, weights)
            if error > ERROR and not self._is_rounding(error, batch, lengths, weights, training):
                raise Refusal("the gradient of the batch is not that of its parts together, although its loss is: what a sample gives depends on "
                              "its place in the batch or on the other samples, so workers cannot compute it in shares")
            found.add(mean)
        if len(found) > 1:
            raise Refusal("the loss of the batch is the mean of those of some parts, and the sum of those of others")
        return found.pop()

    def _is_rounding(self, error, batch, lengths, weights, training):
        """Whether the gradients of a batch are those of its parts together in float64. error: in float32."""
        try:
            double = copy.deepcopy(self._whole).double()
            batch = tuple(tensor.double() if tensor.is_floating_point() else tensor for tensor in batch)
            _, gradients, parts = self._of_parts(double, batch, lengths, training)
        except (RuntimeError, TypeError, copy.Error):
            return error <= ERROR_OF_SINGLE
        return error_of(gradients, parts, weights) <= ERROR

    def _of_parts(self, whole, batch, lengths, training):
        """The loss of a batch, its gradients, and the pairs of both of its parts, by what counts in the whole batch."""
        divisors, size = {}, len(batch[0])
        loss, gradients = self._computed(whole, batch, DividedByAll(divisors.setdefault), training)
        parts = [self._computed(whole, part, DividedByAll(lambda number, own: divisors.get(number, own), size / len(part[0])), training)
                 for part in zip(*(tensor.split(lengths) for tensor in batch))]
        return loss, gradients, parts

    def _computed(self, whole, batch, divisors, training):
        """The loss, and the gradients by name; the module stays as it is."""
        with modes_kept(whole), untouched(whole), divisors, torch.enable_grad():
            begin_training(whole) if training else whole.eval()
            loss = one_number(whole(*batch)[0])
            if loss.requires_grad:
                loss.backward()
            return float(loss.detach()), {name: 0.0 if p.grad is None else p.grad.to_dense().numpy(force=True).copy()
                                          for name, p in whole.named_parameters()}

    def require_same_kind(self, batch):
        """A later batch may have what the first had not, such as labels that a loss ignores, or another number of samples."""
        self._seen += 1
        size = len(batch[0])
        is_new = size not in self._sizes and len(self._sizes) < MOST_SIZES
        if self._workers == 1 or not (is_new or self._seen > 1 and self._seen & (self._seen - 1) == 0):  # the 2nd, 4th, 8th …
            return
        self._sizes.add(size)
        batch = example(batch)
        try:
            if self._is_mean(batch) != self.mean:
                raise Refusal(f"the loss of the first batch was the {'mean' if self.mean else 'sum'} of those of its parts, and that of this is not")
            if not self._coupled:
                self._require_apart(batch)
        except Refusal as found:
            raise Refusal(f"{found}; choose the strategy single") from None

    def _compute(self, mode, rows, parameters, result, gradients):
        """Called by each worker on its own thread (telar/graph/ops/external.h)."""
        WORKER.computes = True
        if self._threads and torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)  # of this thread
        start = max(start for start in list(self._batches) if start <= rows[0])
        whole = self._batches[start]
        batch = tuple(tensor[rows[0] - start:rows[-1] + 1 - start] for tensor in whole)
        worker = self._free.pop() if self._free else self._new_worker()
        try:
            worker.take(parameters)
            share = len(rows) / len(whole[0])
            if mode == "training":
                times, share = (len(rows), len(rows)) if self.mean else (1, share)
                of_alike = share if self.mean or self._alone else float(rows[0] == start)
                worker.train(batch, times, share, of_alike, result, gradients, self._divisors(start, rows))
            else:
                found = worker.predicted(batch) if mode == "prediction" else worker.loss(batch) * (len(rows) if self.mean else 1)
                torch.from_numpy(result).copy_(found.reshape(-1))
        finally:
            self._free.append(worker)
            WORKER.computes = False

    def _divisors(self, start, rows):
        """What the cross-entropies of a part of a batch are computed under."""
        meeting, first, size = self._meetings[start], int(rows[0]), len(self._batches[start][0])
        return OfAPart(meeting, first, len(rows), size)

    def _new_worker(self):
        return Worker(copied(self._whole), self._trained, self._statistics, self._alike)


class Worker:
    """A copy of a module with its loss."""

    def __init__(self, whole, trained, statistics, alike):
        self._whole = whole
        self._is_alike = [name in alike for name in (*trained, *statistics)]
        self._modes = [layer.training for layer in whole.modules()]
        tensors = dict([*whole.model.named_parameters(), *whole.model.named_buffers()])
        self._held = [tensors[name] for name in (*trained, *statistics)]
        self._trained = len(trained)
        self._others = {name: tensor for name, tensor in tensors.items()
                        if name not in trained and name not in statistics and not name.endswith("num_batches_tracked")}

    def take(self, parameters):
        """Uses Telar's memory as that of the parameters; statistics are copied."""
        for number, (tensor, values) in enumerate(zip(self._held, parameters)):
            values = torch.from_numpy(values).view(tensor.shape)
            if tensor.device.type == "cpu" and number < self._trained:
                tensor.data = values
            else:
                tensor.data.copy_(values)

    def train(self, batch, times, share, share_of_alike, result, gradients, divisors):
        """Loss and gradients of a part of a batch, multiplied by `times`; new statistics, by `share`. divisors: OfAPart.

        share_of_alike: of what all workers change alike, such as a counter, whose sum must be exact.
        """
        for layer, mode in zip(self._whole.modules(), self._modes):
            layer.training = mode
        self._whole.zero_grad(set_to_none=True)
        versions = [tensor._version for tensor in self._others.values()]
        with torch.enable_grad(), divisors:
            loss, _ = self._whole(*batch)
        for (name, tensor), version in zip(self._others.items(), versions):
            if tensor._version != version:
                raise Refusal(f"this step changes '{name}' of the module, which the first one did not, so the workers cannot agree on it; "
                              "choose the strategy single")
        loss.backward()
        result[0] = float(loss.detach()) * times
        with torch.no_grad():
            for number, (tensor, sums) in enumerate(zip(self._held, gradients)):
                into = torch.from_numpy(sums).view(tensor.shape)
                if number >= self._trained:
                    torch.mul(tensor.cpu(), share_of_alike if self._is_alike[number] else share, out=into)
                elif tensor.grad is None:
                    into.zero_()
                else:
                    torch.mul(tensor.grad.cpu(), times, out=into)

    def loss(self, batch):
        self._whole.eval()
        return loss_of(self._whole, batch)

    def predicted(self, inputs):
        self._whole.eval()
        with torch.no_grad():
            return first_tensor(self._whole.model(*inputs)).float()


def error_of(gradients, parts, weights):
    """The largest relative error of a parameter's gradient that is put together from those of parts."""
    together = {name: sum(weight * of_part[name] for (_, of_part), weight in zip(parts, weights)) for name in gradients}
    differences, sizes = squares(together, gradients, gradients)
    smallest = LEAST**2 * sum(sizes.values())
    return max((ratio(differences[name], max(sizes[name], smallest)) for name in gradients), default=0.0)


def copied(whole):
    try:
        return copy.deepcopy(whole)
    except (RuntimeError, TypeError, copy.Error) as error:
        raise Refusal(f"each worker needs a copy of the module, which cannot be copied: {error}") from error


def as_array(tensor):
    return numpy.atleast_1d(tensor.detach().to("cpu").contiguous().numpy())
