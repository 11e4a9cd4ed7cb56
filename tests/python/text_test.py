"""TextEncoder and CrossEncoder: tokens, batches by length, pooling, folders of sentence-transformers."""
import json

import numpy as np
import pytest
import vernier
from conftest import MODEL, ROOT

tokenizers = pytest.importorskip("tokenizers", reason="SKIP: the package tokenizers is missing")

EMBEDDER = ROOT / "tests" / "models" / "bert_embedder_ts17" / "model.onnx"
WORDS = [f"w{number}" for number in range(90)]


def make_tokenizer(pad="[PAD]"):
    vocabulary = {pad: 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3}
    vocabulary |= {word: 4 + at for at, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return made


def texts_of(lengths, seed=1):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, length)) for length in lengths]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    path = tmp_path_factory.mktemp("embedder") / "model.vn"
    vernier.build(EMBEDDER, path, shapes={"batch": (1, 8), "seq": (1, 64)})
    return vernier.Engine(path)


@pytest.fixture(scope="module")
def reranker(tmp_path_factory):
    path = tmp_path_factory.mktemp("reranker") / "model.vn"
    vernier.build(MODEL, path, shapes={"batch": (2, 8), "seq": (4, 32)})
    return vernier.Engine(path)


def alone(encoder, text):
    """The vector of one text without padding, by the session."""
    tokens = encoder._tokenizer([text])
    feeds, _ = encoder._feeds(tokens)
    return encoder.session.run([encoder.output.name], feeds)[0][0]


def test_a_text_has_the_same_vector_in_any_company(embedder):
    encoder = vernier.TextEncoder(embedder, make_tokenizer())
    texts = texts_of([3, 40, 1, 17, 17, 60, 2, 9, 30, 5, 11])
    vectors = encoder.encode(texts)
    assert vectors.shape == (len(texts), encoder.dimension) and vectors.dtype == np.float32
    for text, vector in zip(texts, vectors):
        assert np.array_equal(alone(encoder, text), vector)
    assert np.array_equal(encoder.encode(texts, batch_size=3), vectors)
    assert np.array_equal(encoder.encode(texts[4]), vectors[4])
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_texts_are_cut_and_progress_is_told(embedder):
    encoder = vernier.TextEncoder(embedder, make_tokenizer(), max_tokens=6, normalize=True)
    assert encoder.max_tokens == 6
    told = []
    long, cut = texts_of([30], seed=3)[0], " ".join(texts_of([30], seed=3)[0].split()[:4])
    vectors = encoder.encode([long, cut] * 9, progress=lambda done, all_: told.append((done, all_)))
    assert np.array_equal(vectors[0], vectors[1])
    assert told == [(8, 18), (16, 18), (18, 18)]
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    # Without a limit of its own a tokenizer has the engine's.
    assert vernier.TextEncoder(embedder, make_tokenizer()).max_tokens == 64


def test_pooling_counts_no_padding():
    states = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    mask = np.array([[1, 1, 0], [1, 1, 1]])
    pooled = vernier._text.pooled
    assert np.array_equal(pooled(states, mask, "mean"), [[2, 3, 4, 5], [16, 17, 18, 19]])
    assert np.array_equal(pooled(states, mask, "cls"), states[:, 0])
    assert np.array_equal(pooled(states, mask, "last"), [states[0, 1], states[1, 2]])
    assert np.array_equal(pooled(states, mask, "max"), [states[0, 1], states[1, 2]])


def safetensors(arrays):
    header, body = {}, b""
    for name, array in arrays.items():
        data = array.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape),
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


@pytest.fixture
def folder(tmp_path, embedder):
    """What SentenceTransformer.save() writes."""
    width = vernier.TextEncoder(embedder, make_tokenizer()).dimension
    make_tokenizer().save(str(tmp_path / "tokenizer.json"))
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"),
               ("3_Normalize", "Normalize")]
    (tmp_path / "modules.json").write_text(json.dumps(
        [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in modules]))
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    for path, _ in modules[1:]:
        (tmp_path / path).mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(
        {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True,
         "pooling_mode_cls_token": False}))
    (tmp_path / "2_Dense" / "config.json").write_text(json.dumps(
        {"in_features": width, "out_features": 5, "bias": True,
         "activation_function": "torch.nn.modules.activation.Tanh"}))
    draw = np.random.default_rng(5)
    dense = {"linear.weight": draw.normal(size=(5, width)), "linear.bias": draw.normal(size=5)}
    (tmp_path / "2_Dense" / "model.safetensors").write_bytes(safetensors(dense))
    return tmp_path, dense


def test_a_folder_says_what_follows_the_model(embedder, folder):
    path, dense = folder
    encoder = vernier.TextEncoder(embedder, path)
    assert (encoder.max_tokens, encoder.normalize, encoder.dimension) == (16, True, 5)
    texts = texts_of([3, 12])
    plain = vernier.TextEncoder(embedder, path / "tokenizer.json", max_tokens=16).encode(texts)
    expected = np.tanh(plain @ dense["linear.weight"].T + dense["linear.bias"])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(encoder.encode(texts), expected, atol=1e-5)


def test_a_folder_that_asks_for_more_is_an_error(embedder, folder):
    path, _ = folder
    config = path / "2_Dense" / "config.json"
    config.write_text('{"activation_function": "torch.nn.GELU"}')
    with pytest.raises(vernier.Error, match="activation 'GELU', expected Tanh or Identity"):
        vernier.TextEncoder(embedder, path)
    config.write_text("nothing")
    with pytest.raises(vernier.Error, match="is no JSON"):
        vernier.TextEncoder(embedder, path)
    (path / "1_Pooling" / "config.json").write_text('{"pooling_mode_weightedmean_tokens": true}')
    with pytest.raises(vernier.Error, match="asks for pooling_mode_weightedmean_tokens"):
        vernier.TextEncoder(embedder, path)


@pytest.mark.parametrize("damage, why", [
    (lambda data: data[:4], "its header would be"),
    (lambda data: b"\xff" * 8 + data[8:], "its header would be"),
    (lambda data: data[:8] + b"?" + data[9:], "does not say what it holds"),
    (lambda data: data[:-4], "does not fit its"),
    (lambda data: data.replace(b'"F32"', b'"F99"'), "has type F99"),
])
def test_damaged_safetensors_are_errors(damage, why, tmp_path):
    good = safetensors({"a": np.ones((2, 3))})
    path = tmp_path / "model.safetensors"
    path.write_bytes(good)
    assert np.array_equal(vernier._safetensors.read_safetensors(path)["a"], np.ones((2, 3)))
    path.write_bytes(damage(good))
    with pytest.raises(vernier.Error, match=why):
        vernier._safetensors.read_safetensors(path)


def test_pairs_are_scored_and_ranked(reranker):
    ranker = vernier.CrossEncoder(reranker, make_tokenizer("<pad>"))
    query, documents = texts_of([4])[0], texts_of([3, 20, 7, 1, 20], seed=9)
    scores = ranker.predict([(query, document) for document in documents])
    assert scores.shape == (5,) and scores.dtype == np.float32
    # The engine takes at least two rows of four tokens: one pair works, too, with the same bits.
    for document, score in zip(documents, scores):
        assert ranker.predict([(query, document)])[0] == score
    ranked = ranker.rank(query, documents, top_k=3)
    assert [row["corpus_id"] for row in ranked] == list(np.argsort(-scores)[:3])
    assert ranked[0]["text"] == documents[ranked[0]["corpus_id"]]
    assert ranked[0]["score"] == scores.max()
    squeezed = vernier.CrossEncoder(reranker, make_tokenizer(), activation="sigmoid")
    assert np.allclose(squeezed.predict([(query, documents[0])]), 1 / (1 + np.exp(-scores[0])))
    assert ranker.predict([]).shape == (0,)


class OfTransformers:
    """Answers as a tokenizer of transformers does."""
    pad_token_id = 0
    model_max_length = 12

    def __init__(self, of):
        self.of = of

    def __call__(self, texts, pairs=None, padding=False, truncation=False, max_length=None):
        assert not padding and truncation
        self.of.enable_truncation(max_length=max_length)
        made = self.of.encode_batch(list(zip(texts, pairs)) if pairs else texts)
        return {"input_ids": [e.ids for e in made], "token_type_ids": [e.type_ids for e in made]}


def test_tokenizers_of_both_packages_agree(embedder, reranker):
    texts = texts_of([3, 40, 9])
    own = vernier.TextEncoder(embedder, make_tokenizer(), max_tokens=12)
    other = vernier.TextEncoder(embedder, OfTransformers(make_tokenizer()))
    assert other.max_tokens == 12
    assert np.array_equal(own.encode(texts), other.encode(texts))
    pairs = [("w1 w2", "w3"), ("w4", "w5 w6 w7")]
    assert np.array_equal(vernier.CrossEncoder(reranker, make_tokenizer()).predict(pairs),
                          vernier.CrossEncoder(reranker, OfTransformers(make_tokenizer())).predict(
                              pairs))


def test_what_is_wrong_is_named(embedder, reranker, tmp_path):
    wrong = [
        (lambda: vernier.TextEncoder(embedder, 5), "expected a tokenizer of the package"),
        (lambda: vernier.TextEncoder(embedder, tmp_path), "tokenizer.json' does not exist"),
        (lambda: vernier.TextEncoder(embedder, make_tokenizer(), batch_size=0), "at least 1"),
        (lambda: vernier.TextEncoder(embedder, make_tokenizer(), max_tokens=65),
         "the engine takes at most 64"),
        (lambda: vernier.TextEncoder(embedder, make_tokenizer(), output="x"),
         "output: got 'x', expected one of '"),
        (lambda: vernier.TextEncoder(embedder, make_tokenizer(), pooling="median"),
         "pooling: got 'median'"),
        (lambda: vernier.TextEncoder(embedder, make_tokenizer()).encode(["a", 5]),
         "texts: number 1 is an int"),
        (lambda: vernier.CrossEncoder(reranker, make_tokenizer()).predict([("a", "b"), "c"]),
         "pairs: number 1 is 'c'"),
        (lambda: vernier.CrossEncoder(reranker, make_tokenizer(), activation="relu"),
         "activation: got 'relu'"),
        (lambda: vernier.TextEncoder(embedder, make_tokenizer()).encode(["a"], batch_size=9),
         "batch_size: got 9, expected 1 to 8"),
    ]
    for make, message in wrong:
        with pytest.raises(vernier.Error, match=message):
            make()
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(vernier.Error, match="cannot be read"):
        vernier.TextEncoder(embedder, tmp_path)


def test_an_engine_that_reads_no_text_is_an_error(doubling_model, tmp_path):
    vernier.build(doubling_model(1), tmp_path / "m.vn")
    with pytest.raises(vernier.Error, match="expected inputs named input_ids.* got x"):
        vernier.TextEncoder(tmp_path / "m.vn", make_tokenizer())


def test_sentence_transformers_takes_it_as_a_module(embedder):
    pytest.importorskip("torch", reason="SKIP: PyTorch is not installed")
    package = pytest.importorskip("sentence_transformers",
                                  reason="SKIP: sentence-transformers is not installed")
    encoder = vernier.TextEncoder(embedder, make_tokenizer(), normalize=True)
    model = package.SentenceTransformer(modules=[encoder.as_module()], device="cpu")
    texts = texts_of([3, 40, 1, 17, 9, 60, 2, 9, 30, 5, 11])
    assert np.array_equal(model.encode(texts), encoder.encode(texts))
    assert model.get_sentence_embedding_dimension() == encoder.dimension
