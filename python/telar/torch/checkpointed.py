"""What of a Step a checkpoint has, and how a Step continues from it.

A session has the values of the module, and the state of an optimizer of Telar. Where PyTorch computes the module alone, a session is
made for the time of a checkpoint; where PyTorch's own optimizer updates, its state is kept beside the session's.
"""

import contextlib

import torch

from telar.torch import optimizers
from telar.torch.external import External
from telar.torch.following import read_all


class Checkpointed:
    """The part of a Step that telar.torch.fit keeps in checkpoints."""

    def counts(self):
        """How many steps the optimizer has made, the samples of this object's, and the counters of batch norms by their names."""
        return self._step, self._samples, {name: int(buffer) for name, buffer in self.model.named_buffers()
                                           if name.endswith("num_batches_tracked")}

    def further_state(self):
        """What a checkpoint keeps beside a session's state: the options with which Telar's optimizer began; where PyTorch computes or
        updates, buffers; where it updates, the state of its optimizer."""
        if self._update is None and self._external is None:
            return {"options": self._options_at_first, "buffers": {}, "optimizer": None}
        kept = self.model.state_dict()
        return {"options": None, "buffers": {name: kept[name].cpu() for name, _ in self.model.named_buffers() if name in kept},
                "optimizer": None if self._update is None else self.optimizer.state_dict()}

    def restore(self, load, further, step, samples, counters):
        """Continues from a state that load(session) loads, with these counts. further: what further_state() gave."""
        state = further["optimizer"]
        if self._own is None and self._update is None:
            if state is not None:
                self._let_pytorch_update_after("it did so before the checkpoint", self._example)
            self._options_at_first = further["options"] or self._options_at_first
        self._step, self._samples = step, samples
        self.take(load)
        buffers = further["buffers"] or counters
        with torch.no_grad():
            for name, buffer in self.model.named_buffers():
                if name in buffers:
                    buffer.copy_(torch.as_tensor(buffers[name]))
        if state is not None:
            self.optimizer.load_state_dict(state)

    def take(self, load):
        """Takes the state that load(session) loads, as the module has it then, too."""
        with self._whole_state():
            load(self._session)
            self._values.changed(self._step)
            if self._update is not None:
                read_all(self._session, self._captured.tensors)

    def change(self, function):
        """Calls function(session), which has the whole state, but for further_state()."""
        with self._whole_state():
            function(self._session)

    @contextlib.contextmanager
    def _whole_state(self):
        """Meanwhile a session has the values of the module. Afterwards PyTorch has what is in it, if PyTorch trains the module itself."""
        own = self._own
        try:
            if own is not None:
                self._make_whole_state()
            if self._update is not None:
                self._take_module()
            yield
            if own is not None:
                self._values.catch_up(with_state=True)
        finally:
            if own is not None:
                self._forget_capture()
                self._own = own

    def _make_whole_state(self):
        """A session for the module that PyTorch trains itself; it has the optimizer's state, too, if Telar has such an optimizer."""
        self._own, self._trained = None, self._names_of_trained()
        self._external = External(self.model, self._whole_loss(), self._example, self._trained, 1, self._threads)
        self._captured = self._external.captured
        if self._reason_for_pytorch() is None:
            self._take_options()
        else:
            self._update = optimizers.PyTorchsUpdate(self.optimizer, self._clip_norm)
        self._new_session(len(self._example[0]))
        if self._update is None:
            self._values.take_all()
