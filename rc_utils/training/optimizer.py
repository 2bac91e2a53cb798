"""The optimiser of a training, and its learning rate."""

import math

import torch


def learning_rate(config, epoch):
    """Learning rate of epoch 0, 1, ...: constant, or cosine annealing lr/2 (1 + cos(pi epoch / epochs))."""
    if config.schedule == "constant":
        return config.lr
    return 0.5 * config.lr * (1 + math.cos(math.pi * epoch / config.epochs))


def build_optimizer(parameters, config):
    """The torch optimiser that `config` names."""
    common = {
        "params": [p for p in parameters if p.requires_grad],
        "lr": config.lr,
        "weight_decay": config.weight_decay,
    }
    if config.optimizer == "sgd":
        # All parameters in one call: the same bits as one by one, in less time for a network of many small layers.
        return torch.optim.SGD(**common, momentum=config.momentum, foreach=True)
    return {"adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad}[config.optimizer](**common)
