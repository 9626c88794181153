"""Segmentation: dice loss of a whole batch, evaluation and ReduceLROnPlateau within the epoch."""
import logging
import torch
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader, random_split, TensorDataset
from pathlib import Path

dir_checkpoint = Path('./checkpoints/')

def dice(pred, target, eps=1e-6):
    inter = (pred * target).sum()
    return (2 * inter + eps) / (pred.sum() + target.sum() + eps)

@torch.inference_mode()
def evaluate(net, dataloader, device):
    net.eval()
    num_val_batches = len(dataloader)
    score = 0
    for image, mask in dataloader:
        pred = (torch.sigmoid(net(image.to(device))) > 0.5).float()
        score += dice(pred, mask)
    net.train()
    return score / max(num_val_batches, 1)

def train_model(model, device, epochs=2, batch_size=4, learning_rate=1e-3, val_percent=0.2, save_checkpoint=True):
    images = torch.randn(40, 1, 8, 8)
    dataset = TensorDataset(images, (images > 0).float())
    n_val = int(len(dataset) * val_percent)
    n_train = len(dataset) - n_val
    train_set, val_set = random_split(dataset, [n_train, n_val], generator=torch.Generator().manual_seed(0))
    loader_args = dict(batch_size=batch_size, num_workers=0, pin_memory=True)
    train_loader = DataLoader(train_set, shuffle=True, **loader_args)
    val_loader = DataLoader(val_set, shuffle=False, drop_last=True, **loader_args)
    optimizer = optim.RMSprop(model.parameters(), lr=learning_rate, weight_decay=1e-8, momentum=0.9, foreach=False)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max', patience=5)
    criterion = nn.BCEWithLogitsLoss()
    global_step = 0
    for epoch in range(1, epochs + 1):
        model.train()
        epoch_loss = 0
        for batch in train_loader:
            image, true_masks = batch
            masks_pred = model(image.to(device))
            loss = criterion(masks_pred, true_masks)
            loss += 1 - dice(torch.sigmoid(masks_pred), true_masks)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            global_step += 1
            epoch_loss += loss.item()
            division_step = (n_train // (5 * batch_size))
            if division_step > 0:
                if global_step % division_step == 0:
                    val_score = evaluate(model, val_loader, device)
                    scheduler.step(val_score)
                    logging.info('Validation Dice score: {}'.format(val_score))
        if save_checkpoint:
            Path(dir_checkpoint).mkdir(parents=True, exist_ok=True)
            state_dict = model.state_dict()
            torch.save(state_dict, str(dir_checkpoint / 'checkpoint_epoch{}.pth'.format(epoch)))
            logging.info(f'Checkpoint {epoch} saved!')

if __name__ == '__main__':
    torch.manual_seed(1)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1))
    train_model(model=model.to(device), device=device)
