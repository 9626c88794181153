"""A module that PyTorch computes, while Telar divides batches, exchanges gradients and updates.

Each worker has a copy of the module, whose parameters are Telar's memory. As with PyTorch's DistributedDataParallel, it
computes the loss of its share of the batch, and batch norm takes the statistics of the share.
"""

import copy
import weakref

import numpy
import torch

from telar import _native
from telar.comparison import is_same_loss
from telar.torch.capture import Captured, WithLoss, example, first_tensor, modes_kept
from telar.torch.check import untouched
from telar.torch.values import Refusal


class External:
    """The model of a module and its loss.

    batch: an example; trained: names of the parameters that are trained; workers: how many compute at the same time;
    threads: of each worker, or 0 for those that PyTorch has.
    """

    def __init__(self, module, loss, batch, trained, workers, threads):
        self._batches, self._starts, self._end = {}, [], 0
        self._threads = threads
        self._whole = WithLoss(module, loss)
        parameters = dict(module.named_parameters())
        self._trained = [name for name in parameters if name in trained]
        batch = example(batch)
        self._statistics, sample = self._tried(module, batch)
        for name in self._trained:
            if parameters[name].dtype != torch.float32:
                raise Refusal(f"the parameter '{name}' is {parameters[name].dtype}; Telar updates float32 only")
        tensors = {name: parameters[name] for name in self._trained}
        tensors |= {name: dict(module.named_buffers())[name] for name in self._statistics}
        described = [(name, name in parameters, as_array(tensor)) for name, tensor in tensors.items()]
        self._workers, self._seen = workers, 0
        self.mean = workers > 1 and self._is_mean(batch)
        compute = weakref.WeakMethod(self._compute)  # otherwise the model and this object would keep each other
        model = _native.Model.external(type(module).__name__, lambda *call: compute()(*call), described, list(sample or [1]))
        self._predicts = sample is not None
        self._free = [self._new_worker() for _ in range(workers)]
        self.captured = Captured(model, [], {}, tensors, self.mean, draws=True, training_draws=True, same_in_evaluation=False,
                                 output_is_tensor=False)

    def arrays(self, batch):
        """The inputs of Telar's model for a batch, the numbers of its samples among all batches since clear()."""
        start = self._end
        self._seen += 1
        if self._workers > 1 and self._seen > 1 and self._seen & (self._seen - 1) == 0:  # the 2nd, 4th, 8th …
            self._require_same_kind(example(batch))
        self._batches[start] = batch
        self._starts.append(start)
        self._end += len(batch[0])
        return {"x": numpy.arange(start, self._end, dtype=numpy.int32)}

    def forget(self, number):
        """No sample of this batch since clear() will be asked for again."""
        del self._batches[self._starts[number]]

    def clear(self):
        self._batches, self._starts, self._end = {}, [], 0

    def require_prediction(self):
        if not self._predicts:
            raise Refusal("the module's output has not the samples in axis 0, so it cannot be put together from those of the workers")

    def _tried(self, module, batch):
        """The names of the buffers that a training step changes, and the shape of a sample's prediction, or None."""
        whole = self._whole
        buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
        with modes_kept(whole), untouched(whole), torch.no_grad():
            whole.train()
            loss, prediction = whole(*batch)
            changed = [name for name, buffer in module.named_buffers()
                       if not name.endswith("num_batches_tracked") and not torch.equal(buffer, buffers[name])]
        if loss.dim() != 0 and loss.numel() != 1:
            raise Refusal(f"the loss must be one number, not a tensor of {list(loss.shape)}")
        for name in changed:
            if buffers[name].dtype != torch.float32:
                raise Refusal(f"a step changes the buffer '{name}' of {buffers[name].dtype}; Telar's workers can agree on float32 only")
        fits = prediction is not None and prediction.dim() > 0 and len(prediction) == len(batch[0])
        return changed, tuple(prediction.shape[1:]) if fits else None

    def _is_mean(self, batch):
        """Whether the loss of a batch is the mean of its parts' losses, not their sum. Raises Refusal if it is neither."""
        whole, size = self._whole, len(batch[0])
        with modes_kept(whole), untouched(whole), torch.no_grad():
            whole.eval()
            cut = max(1, size // 3)
            loss, first, second = (float(whole(*part)[0]) for part in
                                   (batch, [t[:cut] for t in batch], [t[cut:] for t in batch]))
        if is_same_loss((first * cut + second * (size - cut)) / size, loss):
            return True
        if is_same_loss(first + second, loss):
            return False
        raise Refusal(f"the loss of the batch, {loss:.6g}, is neither the mean nor the sum of those of its parts, {first:.6g} and "
                      f"{second:.6g}, so workers cannot compute it in shares; choose the strategy single")

    def _require_same_kind(self, batch):
        """A later batch may have what the first had not, such as labels that a loss ignores."""
        if self._is_mean(batch) != self.mean:
            raise Refusal(f"the loss of the first batch was the {'mean' if self.mean else 'sum'} of those of its parts, and that of this "
                          "batch is not, so workers cannot compute it in shares; choose the strategy single")

    def _compute(self, mode, rows, parameters, result, gradients):
        """Called by each worker on its own thread (telar/graph/ops/external.h)."""
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
                worker.train(batch, len(rows) if self.mean else 1, len(rows) if self.mean else share, result, gradients)
            else:
                found = worker.predicted(batch) if mode == "prediction" else worker.loss(batch) * (len(rows) if self.mean else 1)
                torch.from_numpy(result).copy_(found.reshape(-1))
        finally:
            self._free.append(worker)

    def _new_worker(self):
        return Worker(copied(self._whole), self._trained, self._statistics)


class Worker:
    """A copy of a module with its loss."""

    def __init__(self, whole, trained, statistics):
        self._whole = whole
        parameters, buffers = dict(whole.model.named_parameters()), dict(whole.model.named_buffers())
        self._held = [parameters[name] for name in trained] + [buffers[name] for name in statistics]

    def take(self, parameters):
        """Uses Telar's memory as that of the parameters; statistics are copied."""
        for tensor, values in zip(self._held, parameters):
            values = torch.from_numpy(values).view(tensor.shape)
            if tensor.device.type == "cpu" and isinstance(tensor, torch.nn.Parameter):
                tensor.data = values
            else:
                tensor.data.copy_(values)

    def train(self, batch, times, share, result, gradients):
        """Loss and gradients of a part of a batch, multiplied by `times`; new statistics, by `share`."""
        self._whole.train()
        self._whole.zero_grad(set_to_none=True)
        with torch.enable_grad():
            loss, _ = self._whole(*batch)
        loss.backward()
        result[0] = float(loss.detach()) * times
        with torch.no_grad():
            for tensor, sums in zip(self._held, gradients):
                into = torch.from_numpy(sums).view(tensor.shape)
                if not isinstance(tensor, torch.nn.Parameter):
                    torch.mul(tensor.cpu(), share, out=into)
                elif tensor.grad is None:
                    into.zero_()
                else:
                    torch.mul(tensor.grad.cpu(), times, out=into)

    def loss(self, batch):
        self._whole.eval()
        with torch.no_grad():
            return self._whole(*batch)[0]

    def predicted(self, inputs):
        self._whole.eval()
        with torch.no_grad():
            return first_tensor(self._whole.model(*inputs)).float()


def copied(whole):
    try:
        return copy.deepcopy(whole)
    except (RuntimeError, TypeError, copy.Error) as error:
        raise Refusal(f"each worker needs a copy of the module, which cannot be copied: {error}") from error


def as_array(tensor):
    return numpy.atleast_1d(tensor.detach().to("cpu").contiguous().numpy())
