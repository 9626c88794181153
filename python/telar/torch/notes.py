"""What a checkpoint keeps of a training in Python, beside parameters and the optimizer's state."""

import io
import random

import numpy
import torch

from telar.refusal import Refusal


class Notes:
    """The optimizer's options, the schedule, the state of chance from which the loader draws its order, and the history."""

    def __init__(self, step, loader, scheduler):
        self.step, self.scheduler = step, scheduler
        sources = [loader, getattr(loader, "sampler", None)]
        found = [source.generator for source in sources if isinstance(getattr(source, "generator", None), torch.Generator)]
        self.generators = list({id(generator): generator for generator in found}.values())
        self.are_readable = False  # whether this was tried
        self.counts = None  # of steps and samples, as Step.counts() has them
        self.further = None  # as Step.further_state() has it

    def text(self, chance, history):
        """The notes as bytes. chance: at the begin of the epoch that is to be continued."""
        kept = {"counts": self.step.counts(), "chance": chance, "options": [{key: value for key, value in group.items() if key != "params"}
                                                                          for group in self.step.optimizer.param_groups],
                "further": self.step.further_state(), "history": history, "schedule": None if self.scheduler is None else self.scheduler.state_dict()}
        file = io.BytesIO()
        torch.save(kept, file)
        if not self.are_readable:
            require_readable(file)
            self.are_readable = True
        return file.getvalue()

    def restored(self, text):
        """Takes these notes; the history."""
        kept = torch.load(io.BytesIO(text), weights_only=True)
        self.counts, self.further = kept["counts"], kept["further"]
        for group, options in zip(self.step.optimizer.param_groups, kept["options"]):
            group.update(options)
        if self.scheduler is not None and kept["schedule"] is not None:
            self.scheduler.load_state_dict(kept["schedule"])
        state = kept["chance"]
        torch.random.set_rng_state(state["torch"])
        for generator, of_generator in zip(self.generators, state["generators"]):
            generator.set_state(of_generator)
        kind, numbers, gauss = state["random"]
        random.setstate((kind, tuple(numbers), gauss))
        name, keys, *rest = state["numpy"]
        numpy.random.set_state((name, keys.numpy().astype(numpy.uint32), *rest))
        return kept["history"]

    def chance(self):
        kind, numbers, gauss = random.getstate()
        name, keys, *rest = numpy.random.get_state()
        return {"torch": torch.random.get_rng_state(), "generators": [generator.get_state() for generator in self.generators],
                "random": (kind, list(numbers), gauss), "numpy": (name, torch.from_numpy(keys.astype(numpy.int64)), *rest)}


def require_readable(file):
    """Raises Refusal if the state of a schedule or an optimizer has objects that PyTorch does not read from a file without running their code."""
    file.seek(0)
    try:
        torch.load(file, weights_only=True)
    except Exception as error:
        raise Refusal("the state of the scheduler or the optimizer has objects that PyTorch does not read again (torch.load with weights_only), so a "
                      "checkpoint cannot keep it; let its state_dict() give numbers, texts and tensors") from error
