"""An optimizer changes a tensor, not a model: style transfer."""
import torch

content = torch.rand(1, 3, 16, 16)
image = content.clone().requires_grad_(True)
net = torch.nn.Conv2d(3, 4, 3)
optimizer = torch.optim.LBFGS([image])  # refused: changes tensors, not the parameters of a torch.nn.Module
for step in range(20):
    def closure():
        optimizer.zero_grad()
        loss = net(image).pow(2).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
