"""Networks of torchvision with their layers' names and sizes. Pretrained weights are random, the same in every
process."""
import types

import torch
from torch import nn

from telar_verify.fakes import weights as fake_weights

from .missing import explain


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * 4)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        out = self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))
        return self.relu(self.bn3(self.conv3(out)) + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, block, layers, num_classes=1000):
        super().__init__()
        self.inplanes = 64
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for at, count in enumerate(layers):
            setattr(self, "layer%d" % (at + 1), self.make_layer(block, 64 << at, count, 1 if at == 0 else 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)

    def make_layer(self, block, planes, count, stride):
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(nn.Conv2d(self.inplanes, planes * block.expansion, 1, stride, bias=False),
                                       nn.BatchNorm2d(planes * block.expansion))
        blocks = [block(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes * block.expansion
        return nn.Sequential(*blocks, *[block(self.inplanes, planes) for _ in range(count - 1)])

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class VGG(nn.Module):
    """`blocks`: the number of convolutions of each size."""

    WIDTHS = (64, 128, 256, 512, 512)

    def __init__(self, blocks, normalised, num_classes=1000):
        super().__init__()
        layers, inputs = [], 3
        for count, width in zip(blocks, self.WIDTHS):
            for _ in range(count):
                layers.append(nn.Conv2d(inputs, width, 3, padding=1))
                layers += [nn.BatchNorm2d(width)] if normalised else []
                layers.append(nn.ReLU(inplace=True))
                inputs = width
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 49, 4096), nn.ReLU(True), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(True),
            nn.Dropout(), nn.Linear(4096, num_classes))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class AlexNet(nn.Module):
    def __init__(self, num_classes=1000):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(True), nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(True), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(True), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(True),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(3, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(256 * 36, 4096), nn.ReLU(True), nn.Dropout(), nn.Linear(4096, 4096),
            nn.ReLU(True), nn.Linear(4096, num_classes))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


MAKERS = {
    "resnet18": lambda **options: ResNet(BasicBlock, (2, 2, 2, 2), **options),
    "resnet34": lambda **options: ResNet(BasicBlock, (3, 4, 6, 3), **options),
    "resnet50": lambda **options: ResNet(Bottleneck, (3, 4, 6, 3), **options),
    "resnet101": lambda **options: ResNet(Bottleneck, (3, 4, 23, 3), **options),
    "resnet152": lambda **options: ResNet(Bottleneck, (3, 8, 36, 3), **options),
    "vgg11": lambda **options: VGG((1, 1, 2, 2, 2), False, **options),
    "vgg13": lambda **options: VGG((2, 2, 2, 2, 2), False, **options),
    "vgg16": lambda **options: VGG((2, 2, 3, 3, 3), False, **options),
    "vgg19": lambda **options: VGG((2, 2, 4, 4, 4), False, **options),
    "vgg11_bn": lambda **options: VGG((1, 1, 2, 2, 2), True, **options),
    "vgg16_bn": lambda **options: VGG((2, 2, 3, 3, 3), True, **options),
    "vgg19_bn": lambda **options: VGG((2, 2, 4, 4, 4), True, **options),
    "alexnet": AlexNet,
}


def replace_pretrained(record):
    """Makes the functions of this module. `record`: where random weights are noted."""
    for name, make in MAKERS.items():
        def network(pretrained=False, weights=None, progress=True, name=name, make=make, **options):
            if weights is None and not pretrained:
                return make(**options)
            model = make(**options)
            fake_weights.settle(model, name)
            record.fake("weights", name)
            return model

        globals()[name] = network


explain_missing = explain(__name__)


def __getattr__(name):
    if name.endswith("_Weights"):
        return types.SimpleNamespace(DEFAULT=name, IMAGENET1K_V1=name, IMAGENET1K_V2=name)
    return explain_missing(name)
