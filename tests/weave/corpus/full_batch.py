"""Linear regression on all samples at once, as first lessons do; predictions and a plot of them in the end."""
import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn as nn

np.random.seed(4)
X_numpy = np.random.randn(101, 3).astype(np.float32)
noise = 0.1 * np.random.randn(101).astype(np.float32)
X = torch.from_numpy(X_numpy)
y = torch.from_numpy(X_numpy @ np.array([2.0, -1.0, 0.5], dtype=np.float32) + noise)
y = y.view(y.shape[0], 1)
n_samples, n_features = X.shape

torch.manual_seed(2)
model = nn.Linear(n_features, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

num_epochs = 20
for epoch in range(num_epochs):
    # forward pass and loss
    y_predicted = model(X)
    loss = criterion(y_predicted, y)

    # backward pass and update
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

    if (epoch + 1) % 5 == 0:
        print(f"epoch: {epoch + 1}, loss = {loss.item():.4f}")

predicted = model(X).detach().numpy()
print(f"mean error: {np.abs(predicted - y.numpy()).mean():.4f}")
plt.plot(X_numpy[:, 0], predicted[:, 0])
plt.savefig("line.png")
