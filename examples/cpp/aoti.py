#!/usr/bin/env python3
"""Compiles a PyTorch module for aoti.cpp, which trains it without Python.

    python examples/cpp/aoti.py FOLDER

Writes training.pt2 (the loss and its gradients, as sums over the samples), prediction.pt2, and values.pt: the samples, the
first values of the parameters, and what a short training in PyTorch gives, with which aoti.cpp compares.
"""

import os
import sys

import torch
from torch import nn
from torch.func import functional_call, grad_and_value
from torch.fx.experimental.proxy_tensor import make_fx

SAMPLES, CLASSES = 256, 4
BATCH, STEPS, LEARNING_RATE, MOMENTUM = 32, 20, 0.05, 0.9  # those of with_torch.h


def network():
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 5 * 5, CLASSES))


def compile_to(path, net, function, inputs):
    """Compiles function(parameters, *inputs) for any number of samples, the first axis of each input."""
    parameters = [parameter.detach().clone() for parameter in net.parameters()]
    traced = make_fx(function, tracing_mode="symbolic")(parameters, *inputs)
    samples = torch.export.Dim("samples", min=1, max=4096)
    shapes = ([None] * len(parameters), *({0: samples} for _ in inputs))
    program = torch.export.export(traced, (parameters, *inputs), dynamic_shapes=shapes)
    torch._inductor.aoti_compile_and_package(program, package_path=path)


def train(net, images, labels):
    """The mean loss of each step in PyTorch, and the scores of the first batch after them."""
    optimizer = torch.optim.SGD(net.parameters(), LEARNING_RATE, momentum=MOMENTUM)
    losses = []
    for step in range(STEPS):
        first = step * BATCH % SAMPLES
        loss = nn.functional.cross_entropy(net(images[first:first + BATCH]), labels[first:first + BATCH])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        return torch.tensor(losses, dtype=torch.float64), net(images[:BATCH])


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: aoti.py FOLDER")
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    torch.set_num_threads(1)  # the compiled functions have as many: the workers of Telar are threads already
    torch.manual_seed(0)
    net = network()
    names = [name for name, _ in net.named_parameters()]
    images = torch.randn(SAMPLES, 1, 12, 12)
    labels = (images.flatten(1) @ torch.randn(144, CLASSES)).argmax(1)

    def predict(parameters, x):
        return functional_call(net, dict(zip(names, parameters)), (x,))

    def loss_and_gradients(parameters, x, label):
        def loss(parameters):
            return nn.functional.cross_entropy(predict(parameters, x), label, reduction="sum")

        gradients, value = grad_and_value(loss)(parameters)
        return value, *gradients

    compile_to(os.path.join(folder, "training.pt2"), net, loss_and_gradients, (images[:6], labels[:6]))
    compile_to(os.path.join(folder, "prediction.pt2"), net, predict, (images[:6],))
    begin = [parameter.detach().clone() for parameter in net.parameters()]
    losses, scores = train(net, images, labels)
    torch.save({"images": images, "labels": labels, "names": names, "parameters": begin, "classes": CLASSES, "losses": losses,
                "scores": scores}, os.path.join(folder, "values.pt"))


if __name__ == "__main__":
    main()
