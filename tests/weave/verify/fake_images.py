"""What check_fakes.py runs: data sets of torchvision, changed at random, a split, pretrained weights, and images."""
import torch
from torch import nn
from torch.utils.data import DataLoader, random_split
from torchvision import datasets, models, transforms
from torchvision.utils import save_image

torch.manual_seed(3)
changes = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
                              transforms.ToTensor(), transforms.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))])
whole = datasets.CIFAR10("data", train=True, download=True, transform=changes)
train_set, valid_set = random_split(whole, [45000, 5000])
photos = datasets.ImageFolder("photos/val", transforms.Compose([transforms.Resize(32), transforms.CenterCrop(32),
                                                                transforms.ToTensor()]))
train_loader = DataLoader(train_set, batch_size=4, shuffle=True, num_workers=2)
valid_loader = DataLoader(valid_set, batch_size=4)
photo_loader = DataLoader(photos, batch_size=4)
features = models.resnet18(pretrained=True).eval()
for parameter in features.parameters():
    parameter.requires_grad = False
model = nn.Sequential(nn.Linear(1000, 16), nn.ReLU(), nn.Linear(16, len(whole.classes)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
criterion = nn.CrossEntropyLoss()
for epoch in range(1):
    for images, labels in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(features(images)), labels)
        loss.backward()
        optimizer.step()
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for loader in (valid_loader, photo_loader):
            for images, labels in loader:
                right += (model(features(images)).argmax(1) == labels).sum().item()
                seen += len(labels)
    print(f"epoch {epoch}: {right} of {seen}")
save_image(images, "last.png", normalize=True)
