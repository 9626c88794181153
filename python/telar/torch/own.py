"""A module that PyTorch trains itself, in the thread of the training loop: what a single worker needs no Telar for."""

import contextlib
import math

import torch

from telar.refusal import not_finite
from telar.torch.capture import WithLoss, first_tensor, modes_kept
from telar.torch.values import Refusal


class Own:
    """The steps as a loop of PyTorch makes them, so whatever hangs on module, parameters and optimizer acts as there."""

    def __init__(self, model, loss, optimizer, clip_norm, threads):
        self._whole, self._optimizer = WithLoss(model, loss), optimizer
        self._clip_norm, self._threads = clip_norm, threads

    def step(self, batch, number, begins, update):
        """Makes a step; its loss before it. number: of the step, for errors; begins, update: as PyTorchsUpdate.make() has them."""
        with threads_of(self._threads):
            if begins:
                self._optimizer.zero_grad()
            with torch.enable_grad():
                result = one_number(self._whole(*batch)[0])
            loss = float(result.detach())
            if not math.isfinite(loss):
                raise not_finite(number, loss, "")
            result.backward()
            if not update:
                return loss
            if self._clip_norm:
                torch.nn.utils.clip_grad_norm_(self._whole.model.parameters(), self._clip_norm)
            gradients = [p.grad for group in self._optimizer.param_groups for p in group["params"] if p.grad is not None]
            if not all(bool(torch.isfinite(g.coalesce().values() if g.is_sparse else g).all()) for g in gradients):
                raise not_finite(number, loss, "those of before")
            self._optimizer.step()
            self._optimizer.zero_grad()
        return loss

    def evaluate(self, batch):
        with self._evaluating():
            return float(one_number(loss_of(self._whole, batch)))

    def predict(self, inputs):
        with self._evaluating():
            prediction = first_tensor(self._whole.model(*inputs))
        if prediction is None or prediction.dim() == 0 or len(prediction) != len(inputs[0]):
            raise Refusal("the module's output has not the samples in axis 0")
        return prediction.float()

    @contextlib.contextmanager
    def _evaluating(self):
        with modes_kept(self._whole), torch.no_grad(), threads_of(self._threads):
            self._whole.eval()
            yield


def loss_of(whole, batch):
    """The loss without a gradient; only what asks for gradients itself, such as a penalty of them, is computed with one."""
    try:
        with torch.no_grad():
            return whole(*batch)[0]
    except RuntimeError as error:
        if "does not require grad" not in str(error):
            raise
    with torch.enable_grad():
        return whole(*batch)[0].detach()


def one_number(loss):
    if loss.numel() != 1:
        raise Refusal(f"the loss must be one number, not a tensor of {list(loss.shape)}")
    return loss.reshape(())


@contextlib.contextmanager
def threads_of(count):
    """PyTorch has so many threads meanwhile; 0: those that it has."""
    before = torch.get_num_threads()
    if count and count != before:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
