from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from autotelic.learning import optimizers

PROGRAM = """
import sys, torch
from autotelic.learning.muon import Muon
from autotelic.learning.optimizers import Adam, AdamW
weights = [torch.nn.Parameter(torch.ones(4, 4))]
for optimizer in (Adam(weights, fused=True), AdamW(weights), Muon(weights, 0.1)):
    optimizer.zero_grad()
    weights[0].square().sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
print("torch._dynamo" in sys.modules)
"""


def test_learning_does_not_wait_for_torchs_compiler_to_load():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_weights_are_those_of_torchs_own_to_the_bit(name: str):
    def learned(module: object) -> torch.Tensor:
        weights = torch.nn.Parameter(torch.linspace(-1, 1, 12).reshape(3, 4))
        optimizer = getattr(module, name)([weights], lr=0.1)
        for power in (2, 3, 4):
            optimizer.zero_grad()
            weights.pow(power).sum().backward()
            optimizer.step()
        return weights.detach()

    ours = learned(optimizers)
    assert not torch.equal(ours, torch.linspace(-1, 1, 12).reshape(3, 4))
    assert torch.equal(ours, learned(torch.optim))
