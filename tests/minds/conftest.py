"""Small random models on disk, in the hub's format; and one thread for tests that compute."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may reach the hub

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXTS = ["def f(a): return a + 1\n", "What does this call return? <answer>12</answer>\n", "system user assistant\n"]
TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tokenizer(directory: Path, *, first: bool = False) -> None:
    """A byte-level BPE tokenizer, in files as Qwen's; with `first` it begins every text with a token, as Llama's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    words.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=290, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    words.train_from_iterator(TEXTS, trainer)
    if first:
        words.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
            single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
        )
    words.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast" if first else "Qwen2Tokenizer",
        "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
        "bos_token": "<|endoftext|>" if first else None,
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "chat_template": TEMPLATE,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Qwen2 of two layers, untrained. Its weights are large, so that its distributions are far from even."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    directory = tmp_path_factory.mktemp("qwen")
    config = transformers.Qwen2Config(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.Qwen2ForCausalLM(config)
    # What Qwen ships: sampling defaults that would bend the distribution, and a second token that ends a turn.
    model.generation_config.update(
        do_sample=True, temperature=0.3, top_k=5, top_p=0.5, repetition_penalty=1.5, eos_token_id=[2, 0]
    )
    model.save_pretrained(directory)
    write_tokenizer(directory)
    return directory


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Llama of two layers, with dropout, untied weights and a first token."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    directory = tmp_path_factory.mktemp("llama")
    config = transformers.LlamaConfig(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        initializer_range=0.3,
        attention_dropout=0.5,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(directory)
    write_tokenizer(directory, first=True)
    return directory


@pytest.fixture(scope="session")
def opt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OPT of two layers: positions are learned, not relative, and its layers drop parts themselves."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.set_num_threads(1)
    torch.manual_seed(2)
    directory = tmp_path_factory.mktemp("opt")
    config = transformers.OPTConfig(
        vocab_size=300,
        hidden_size=32,
        word_embed_proj_dim=32,
        ffn_dim=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        dropout=0.5,
        init_std=0.3,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    transformers.OPTForCausalLM(config).save_pretrained(directory)
    write_tokenizer(directory)
    return directory
