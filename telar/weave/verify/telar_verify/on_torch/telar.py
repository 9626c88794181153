"""Steps of telar.torch.Step, in the form in which the steps of an optimizer are recorded.

The values of the parameters are read from Telar: the module has them only after sync(), and whether the woven
program calls it in time is among what is compared.
"""
import torch

from .training import digest, some_values


def gradients(step, names, size):
    """The gradients of the last step as PyTorch has them before the optimizer's step: means, clipped."""
    divisor = size if step._captured.mean else 1
    found = {name: torch.from_numpy(step._session.read_gradient(name)) / divisor for name in names if name}
    norm = float(torch.sqrt(sum((one.double() ** 2).sum() for one in found.values())))
    factor = min(1.0, step._clip_norm / (norm + 1e-6)) if step._clip_norm else 1.0
    return [some_values(found[name] * factor) if name else None for name in names]


def watch_steps(record, draws, steps):
    try:
        from telar.torch import Step
    except ImportError:  # the woven script says so
        return
    make = Step.__call__

    def observed(step, *batch):
        optimizer = step.optimizer
        names = {id(one): name for name, one in step.model.named_parameters()}
        order = [names.get(id(one)) for one in steps.parameters(optimizer)]

        def values():
            held = step.values() if step._session is not None else {}
            return [torch.from_numpy(held[name]).reshape(one.shape) if name in held else one.detach().cpu().clone()
                    for name, one in zip(order, steps.parameters(optimizer))]

        for one in record.trained_now():
            one.trained, one.fresh = True, False
        known = steps.before(optimizer)
        started = values()
        known["started"] = [digest(one) for one in started]
        if not any(one is optimizer for one in steps.optimizers):
            known["started_values"] = started
        draws.depth += 1
        try:
            with draws.left_alone():
                loss = make(step, *batch)
        finally:
            draws.depth -= 1
        if step._external:
            record.exclude("Telar cannot compute the module, so PyTorch does in its workers, with random numbers of their own")
        elif step._captured.training_draws:
            record.exclude("the module draws random numbers in a step, for which Telar draws its own")
        if step._bf16:
            record.exclude("Telar's products and convolutions in bf16 round at other places than autocast")
        held = step.values()
        known["gradients"] = gradients(step, [name if name in held else None for name in order], len(batch[0]))
        steps.after(optimizer, known, False, values())
        return loss

    Step.__call__ = observed
