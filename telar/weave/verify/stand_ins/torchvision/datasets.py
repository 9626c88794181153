"""The known data sets are put here by telar_verify.fakes."""
import torch

from telar_verify.fakes import randoms
from telar_verify.fakes.pictures import picture

from .missing import explain

VisionDataset = torch.utils.data.Dataset


class FakeData(VisionDataset):
    """Torchvision's own data set of random images."""

    def __init__(self, size=1000, image_size=(3, 224, 224), num_classes=10, transform=None, target_transform=None,
                 random_offset=0):
        self.size, self.image_size, self.num_classes = size, image_size, num_classes
        self.transform, self.target_transform, self.random_offset = transform, target_transform, random_offset

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError("FakeData has %d samples" % self.size)
        channels, height, width = self.image_size
        number = index + self.random_offset
        image = picture(randoms.pixels((height, width, channels), "FakeData", number))
        target = int(randoms.generator("FakeData", "target", number).randint(self.num_classes))
        return (self.transform(image) if self.transform else image,
                self.target_transform(target) if self.target_transform else target)


__getattr__ = explain(__name__)
