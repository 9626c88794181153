"""A project in the form of a package: models, data and the loop in modules of their own, re-exported by the package; the
script has the arguments. Names come over aliases, relative imports, a module's attributes and a star import."""
import argparse
import logging

import torch

import vision
from vision import config, make_model as build
from vision.engine import Trainer
from vision.loaders import loaders as make_loaders

log = logging.getLogger("train")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=config.EPOCHS)
    parser.add_argument("--resume", default="")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    torch.manual_seed(config.SEED)
    train_loader, test_loader = make_loaders(config.BATCH)
    model = build(vision.config.WIDTH)
    optimizer = vision.optimizers.make(model)
    trainer = Trainer(model, optimizer, train_loader, test_loader)
    if args.resume:
        trainer.load(args.resume)
    trainer.fit(args.epochs)
    log.info("done")
    vision.report.write(trainer.history)


if __name__ == "__main__":
    main()
