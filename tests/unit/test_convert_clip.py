"""CLIP's and SigLIP's architectures, with random weights: open_clip's own code gives the same tokens and vectors."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from text_towers import strings, write_numbers

import dbinfer
from dbinfer.models.ir import core_for
from dbinfer_udf.image.words import Words, write

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
open_clip = pytest.importorskip("open_clip", reason="needs open_clip: pip install open_clip_torch")
pytest.importorskip("openvino_tokenizers", reason="needs openvino-tokenizers: pip install dbinfer[text]")

pytestmark = [pytest.mark.wide, pytest.mark.filterwarnings("ignore")]

SIDE, TRUNK_SIDE, WIDTH = 64, 224, 64
TEXTS = (
    *("", "a red car at night", "two sevens and a 3", "  A   RED Car?", "naïve café", "日本語のテキスト"),
    *("emoji 😀 👩‍👩‍👧", "it's john's 3.14", "tab\tand\nline", "the quick brown fox " * 30, "x" * 300),
    *("СССР ٣٤٥ x²", "a_b-c/d\\e", "don't we'll I'd"),
)
VISION = {"image_size": SIDE, "layers": 2, "width": WIDTH, "head_width": 32, "patch_size": 16}
TEXT = {"vocab_size": 49408, "width": WIDTH, "heads": 2, "layers": 2}
TRUNK = {
    **{
        "image_size": SIDE,
        "timm_model_name": "vit_tiny_patch16_224",
        "timm_pool": "map",
        "timm_proj": "none",
    },
    "timm_model_pretrained": False,
}
Exported = tuple[Any, Path, int]


def clip() -> Any:
    return open_clip.model.CLIP(WIDTH, VISION, {"context_length": 77, **TEXT})


def siglip() -> Any:
    """As open_clip's configurations of SigLIP: a trunk of timm with a pooling head, texts without a causal mask."""
    text = {**TEXT, "context_length": 64, "no_causal_mask": True, "proj_bias": True, "pool_type": "last"}
    # the vectors of timm's smallest trunk
    return open_clip.model.CustomTextCLIP(192, TRUNK, text, init_logit_bias=-10)


class Tower(torch.nn.Module):  # type: ignore[misc]
    """One of the two methods as a network."""

    def __init__(self, model: Any, method: str) -> None:
        super().__init__()
        self.model, self.method = model, method

    def forward(self, value: Any) -> Any:
        return getattr(self.model, self.method)(value)


@pytest.fixture(scope="module", params=["clip", "siglip"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The model, and the folder of its towers in ONNX with the tokenizer of CLIP, whose vocabulary open_clip ships."""
    torch.manual_seed(0)
    folder, length = tmp_path_factory.mktemp(request.param), 77 if request.param == "clip" else 64
    model = (clip if request.param == "clip" else siglip)().eval()
    side = SIDE if request.param == "clip" else TRUNK_SIDE
    numbers = torch.zeros(1, length, dtype=torch.long)
    for name, method, value in (
        ("image", "encode_image", torch.zeros(1, 3, side, side)),
        ("text", "encode_text", numbers),
    ):
        names = {"input_names": ["value"], "output_names": ["vector"]}
        file = str(folder / f"{name}.onnx")
        torch.onnx.export(
            Tower(model, method).eval(), (value,), file, dynamo=False, opset_version=17, **names
        )
    write_tokenizer(folder, "<|endoftext|>" if request.param == "clip" else "!")
    return model, folder, length


def write_tokenizer(folder: Path, fills: str) -> None:
    from open_clip.tokenizer import bytes_to_unicode, default_bpe
    from transformers import CLIPTokenizerFast

    merges = gzip.decompress(Path(default_bpe()).read_bytes()).decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    letters = list(bytes_to_unicode().values())
    words = [*letters, *(f"{one}</w>" for one in letters), *("".join(one.split()) for one in merges)]
    vocabulary = {word: place for place, word in enumerate([*words, "<|startoftext|>", "<|endoftext|>"])}
    made = CLIPTokenizerFast(vocab=vocabulary, merges=[tuple(one.split()) for one in merges])
    made.backend_tokenizer.save(str(folder / "tokenizer.json"))
    # SigLIP's texts see what fills them up, and open_clip fills up with 0, which is "!"; no text here has one
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": fills}))


def test_towers_without_any_option(exported: Exported, subtests: pytest.Subtests) -> None:
    model, folder, length = exported
    image = dbinfer.convert(folder / "image.onnx", folder / "image.xml")
    text = dbinfer.convert(folder / "text.onnx", folder / "text.xml")
    assert (image.manifest.task, text.manifest.task) == ("embedding", "text_embedding")
    assert image.known == ("CLIP" if length == 77 else "SigLIP")
    assert image.manifest.l2_normalize
    assert text.manifest.l2_normalize
    assert np.allclose(image.manifest.mean[0], 0.48145466 * 255 if length == 77 else 127.5)
    side = image.manifest.height
    pixels = np.random.default_rng(0).standard_normal((1, 3, side, side)).astype(np.float32)
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    found = core_for(folder / "image.xml").compile_model(str(folder / "image.xml"), "CPU", exact)(pixels)[0]
    assert np.abs(found - model.encode_image(torch.from_numpy(pixels)).detach().numpy()).max() < 1e-4
    compiled = core_for(folder / "text.xml").compile_model(str(folder / "text.xml"), "CPU", exact)
    tokenizer, worst = open_clip.tokenizer.SimpleTokenizer(context_length=length), 0.0
    for one in TEXTS:
        with subtests.test(text=one[:20]):
            row = np.zeros(compiled.input(0).shape, np.uint8)
            write(Words(row.shape[2])(one.encode())[0], row[0])
            gap = np.abs(compiled(row)[0] - model.encode_text(tokenizer([one])).detach().numpy()).max()
            assert gap < 1e-4
            worst = max(worst, float(gap))
    print(f"\n{image.known}: vectors of {len(TEXTS)} texts differ by {worst:.2g} at most")


def test_tokens_of_many_texts_are_those_of_open_clip(tmp_path: Path) -> None:
    """With CLIP's own vocabulary. What open_clip mends before (curly quotes, HTML's entities) is mended here, too."""
    from open_clip.tokenizer import basic_clean

    write_tokenizer(tmp_path, "<|endoftext|>")
    write_numbers(tmp_path / "text.onnx", 77)
    plain = dbinfer.ConvertOptions(values={"l2_normalize": False})
    dbinfer.convert(tmp_path / "text.onnx", tmp_path / "text.xml", plain)
    compiled = core_for(tmp_path / "text.xml").compile_model(str(tmp_path / "text.xml"), "CPU")
    tokenizer, row, wrong, mended = (
        open_clip.tokenizer.SimpleTokenizer(),
        np.zeros(compiled.input(0).shape, np.uint8),
        [],
        0,
    )
    for text in strings(10_000):
        clean = basic_clean(text)
        mended += clean != text.strip()
        write(Words(row.shape[2])(clean.encode())[0], row[0])
        found, expected = compiled(row)[0][0].astype(int), tokenizer([text])[0].numpy()
        # CLIP looks at nothing behind the end, which open_clip fills up with 0 and Hugging Face with the end
        end = int(np.argmax(expected == tokenizer.eot_token_id))
        if not np.array_equal(found[: end + 1], expected[: end + 1]) or set(found[end:]) != {
            tokenizer.eot_token_id
        }:
            wrong.append(text)
    print(f"\n10,000 texts, {mended} mended before, {len(wrong)} differ")
    assert wrong == []
