"""Optimisers of torch that are never compiled.

torch's own load its compiler when they are first used, to tell it what to leave alone, and that takes as long as to
load torch. Here their methods are what torch wraps for that; what they compute is the same to the bit.
"""

from __future__ import annotations

from inspect import unwrap

import torch
from torch.optim import Optimizer


class Plain(Optimizer):
    """What optimisers have in common."""

    add_param_group = unwrap(Optimizer.add_param_group)
    load_state_dict = unwrap(Optimizer.load_state_dict)
    state_dict = unwrap(Optimizer.state_dict)
    zero_grad = unwrap(Optimizer.zero_grad)


_step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class Adam(Plain, torch.optim.Adam):
    step = _step


class AdamW(Plain, torch.optim.AdamW):
    step = _step
