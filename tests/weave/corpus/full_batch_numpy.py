"""All samples at once, arrays of NumPy that become tensors in each step; the loop ends when the loss is small."""
import numpy as np
import torch
import torch.nn as nn

x_train = np.linspace(-2, 2, 45, dtype=np.float32).reshape(45, 1)
y_train = 3 * x_train + 1 + 0.2 * np.sin(9 * x_train)
torch.manual_seed(8)
model = nn.Linear(1, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(60):
    inputs = torch.from_numpy(x_train)
    targets = torch.from_numpy(y_train)
    outputs = model(inputs)
    loss = criterion(outputs, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (epoch + 1) % 5 == 0:
        print("Epoch [{}/{}], Loss: {:.4f}".format(epoch + 1, 60, loss.item()))
    if loss.item() < 0.1:
        break
predicted = model(torch.from_numpy(x_train)).detach().numpy()
print(f"{len(predicted)} predictions, the largest is {predicted.max():.3f}")
torch.save(model.state_dict(), "model.ckpt")
