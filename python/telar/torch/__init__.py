"""PyTorch's modules on Telar's engine.

    import telar.torch as tt
    step = tt.Step(model, nn.CrossEntropyLoss(), optimizer, strategy="mirrored", replicas=2)
    for images, labels in loader:
        loss = step(images, labels)
    step.sync()              # values are back in the module and the optimizer
    step.save("m.telar")     # for `telar train`, and for telar.load() without PyTorch
"""

from telar.torch.fit import fit
from telar.torch.step import Step
from telar.torch.values import Refusal

__all__ = ["Refusal", "Step", "fit"]
