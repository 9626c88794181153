"""Time steps and noise are drawn for each batch; a progress bar around the loader."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
def tqdm(x): return x

class Diffusion:
    def __init__(self, steps=10, device="cpu"):
        self.steps = steps
        self.device = device
        self.beta = torch.linspace(1e-4, 0.02, steps).to(device)
        self.alpha_hat = torch.cumprod(1. - self.beta, dim=0)
    def noise(self, x, t):
        a = torch.sqrt(self.alpha_hat[t])[:, None]
        b = torch.sqrt(1 - self.alpha_hat[t])[:, None]
        e = torch.randn_like(x)
        return a * x + b * e, e
    def sample_timesteps(self, n):
        return torch.randint(low=1, high=self.steps, size=(n,))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(10, 4)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 4))
    def forward(self, x, t):
        return self.net(x + self.time(t))

def train():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dataloader = DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=5, shuffle=True)
    model = Net().to(device)
    optimizer = optim.AdamW(model.parameters(), lr=3e-4)
    mse = nn.MSELoss()
    diffusion = Diffusion(device=device)
    for epoch in range(2):
        pbar = tqdm(dataloader)
        for i, (images,) in enumerate(pbar):
            images = images.to(device)
            t = diffusion.sample_timesteps(images.shape[0]).to(device)
            x_t, noise = diffusion.noise(images, t)
            loss = mse(noise, model(x_t, t))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), "ckpt.pt")

if __name__ == '__main__':
    torch.manual_seed(0)
    train()
