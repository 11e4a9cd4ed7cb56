"""TextEncoder and CrossEncoder: texts in, vectors or scores out. The tokenizer is the user's."""
from __future__ import annotations

import importlib
import json
import os
import pathlib
from typing import Any, Callable, Iterable, Literal, Mapping, NamedTuple, Sequence

import numpy as np

from vernier._arrays import Array
from vernier._engine import Engine, Port, Session
from vernier._error import Error
from vernier._safetensors import read_safetensors
from vernier._values import Path, kind

Pooling = Literal["mean", "cls", "last", "max"]
_POOLINGS = ("mean", "cls", "last", "max")

# What an input of an engine is, by its name.
_IDS = ("input_ids", "ids", "tokens")
_MASK = ("attention_mask", "mask", "input_mask")
_TYPES = ("token_type_ids", "segment_ids", "type_ids")


class _Tokens(NamedTuple):
    """One text, or one pair of them, as its model reads it."""

    ids: Sequence[int]
    types: Sequence[int]


class _Tokenizer:
    """What is needed of a tokenizer, of whichever package: tokens of texts, not padded, and cut to
    `max_tokens` (None: as the tokenizer says), and to `most` in any case."""

    def __init__(self, tokenizer: Any, max_tokens: int | None, most: int) -> None:
        self.pad_id = 0
        self.max_tokens = most
        self._call: Callable[[list[Any]], list[_Tokens]]
        if isinstance(tokenizer, (str, os.PathLike)):
            tokenizer = _tokenizer_of_file(pathlib.Path(tokenizer))
        if hasattr(tokenizer, "encode_batch") and hasattr(tokenizer, "to_str"):
            self._of_tokenizers(tokenizer, max_tokens, most)
        elif callable(tokenizer) and hasattr(tokenizer, "pad_token_id"):
            self._of_transformers(tokenizer, max_tokens, most)
        else:
            raise Error("tokenizer: expected a tokenizer of the package tokenizers or transformers, "
                        f"a tokenizer.json, or a folder with one, got {kind(tokenizer)}", "input")

    def __call__(self, texts: list[Any]) -> list[_Tokens]:
        return self._call(texts) if texts else []

    def _of_tokenizers(self, tokenizer: Any, max_tokens: int | None, most: int) -> None:
        own = type(tokenizer).from_str(tokenizer.to_str())  # the caller's stays as it is
        if own.padding:
            self.pad_id = own.padding["pad_id"]
        else:
            named = (own.token_to_id(token) for token in ("[PAD]", "<pad>"))
            self.pad_id = next((number for number in named if number is not None), 0)
        own.no_padding()
        known = own.truncation["max_length"] if own.truncation else None
        self.max_tokens = min(max_tokens or known or most, most)
        if self.max_tokens != known:
            own.enable_truncation(max_length=self.max_tokens)
        self._call = lambda texts: [_Tokens(e.ids, e.type_ids) for e in own.encode_batch(texts)]

    def _of_transformers(self, tokenizer: Any, max_tokens: int | None, most: int) -> None:
        self.pad_id = tokenizer.pad_token_id or 0
        length = getattr(tokenizer, "model_max_length", None)
        known = length if isinstance(length, int) else most
        self.max_tokens = min(max_tokens or known, most)

        def call(texts: list[Any]) -> list[_Tokens]:
            pairs = not isinstance(texts[0], str)
            first = [text[0] for text in texts] if pairs else texts
            second = [text[1] for text in texts] if pairs else None
            made = tokenizer(first, second, padding=False, truncation=True,
                             max_length=self.max_tokens)
            types = made.get("token_type_ids") or [[0] * len(ids) for ids in made["input_ids"]]
            return [_Tokens(*both) for both in zip(made["input_ids"], types)]

        self._call = call


def _tokenizer_of_file(path: pathlib.Path) -> Any:
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise Error(f"tokenizer: '{file}' does not exist; expected a tokenizer.json, as "
                    "tokenizer.save_pretrained() of transformers writes it", "input")
    try:
        tokenizers = importlib.import_module("tokenizers")
    except ImportError as error:
        raise Error(f"tokenizer: reading '{file}' needs the package tokenizers: {error}; install "
                    "it, or give a tokenizer of transformers", "input") from error
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # of its own kind
        raise Error(f"tokenizer: '{file}' cannot be read: {error}", "input") from error


def _role(port: Port) -> str | None:
    for role, names in (("ids", _IDS), ("mask", _MASK), ("types", _TYPES)):
        if port.name in names or port.name.split(".")[-1] in names:
            return role
    return None


class _TextModel:
    """An engine that reads tokens, a session of it, and the tokenizer."""

    def __init__(self, engine: Engine | Path, tokenizer: Any, *, output: str | None,
                 max_tokens: int | None, batch_size: int, session: Mapping[str, Any]) -> None:
        if batch_size < 1:
            raise Error(f"batch_size: got {batch_size}, expected at least 1", "input")
        self.session = Session(engine, **session)
        self.engine = self.session.engine
        self._roles = {port.name: _role(port) for port in self.engine.inputs}
        strange = [name for name, role in self._roles.items() if role is None]
        if strange or "ids" not in self._roles.values():
            named = ", ".join(port.name for port in self.engine.inputs)
            raise Error("the engine does not read tokens of a text: expected inputs named "
                        f"{_IDS[0]}, {_MASK[0]} and {_TYPES[0]}, got {named}", "input")
        ids = next(port for port in self.engine.inputs if self._roles[port.name] == "ids")
        if len(ids.shape) != 2:
            raise Error(f"input '{ids.name}' has shape {ids.shape}, expected [batch, length]",
                        "input")
        (self._least_rows, most_rows), (self._least_length, most_length) = ids.ranges
        self.batch_size = max(self._least_rows, min(batch_size, most_rows))
        if max_tokens is not None and max_tokens > most_length:
            raise Error(f"max_tokens: got {max_tokens}, and the engine takes at most {most_length} "
                        "tokens", "input")
        self._tokenizer = _Tokenizer(tokenizer, max_tokens, most_length)
        #: Texts are cut to so many tokens.
        self.max_tokens = self._tokenizer.max_tokens
        self.output = self._scored(output)

    def _scored(self, name: str | None) -> Port:
        floats = [port for port in self.engine.outputs if "float" in port.dtype]
        if name is None and len(floats) == 1:
            return floats[0]
        for port in floats:
            if port.name == name:
                return port
        listed = ", ".join(f"'{port.name}' {port.shape}" for port in floats)
        raise Error(f"output: {'the engine has several' if name is None else f'got {name!r}'}, "
                    f"expected one of {listed}", "input")

    def _feeds(self, rows: Sequence[_Tokens]) -> tuple[dict[str, Array], Array]:
        """The engine's inputs for these rows, padded to the longest, and the mask."""
        count = max(len(rows), self._least_rows)
        length = max(self._least_length, max(len(row.ids) for row in rows))
        arrays = {"ids": np.full((count, length), self._tokenizer.pad_id, np.int64),
                  "types": np.zeros((count, length), np.int64),
                  "mask": np.zeros((count, length), np.int64)}
        for at in range(count):
            row = rows[min(at, len(rows) - 1)]  # the engine's fewest rows: the last one again
            arrays["ids"][at, :len(row.ids)] = row.ids
            arrays["types"][at, :len(row.ids)] = row.types
            arrays["mask"][at, :len(row.ids)] = 1
        feeds = {port.name: arrays[str(self._roles[port.name])].astype(port.dtype)
                 for port in self.engine.inputs}
        return feeds, arrays["mask"][:len(rows)]

    def _answers(self, texts: list[Any], batch_size: int | None,
                 progress: Callable[[int, int], None] | None,
                 tokenized: bool) -> Iterable[tuple[list[int], Array]]:
        """(places in `texts`, what _of_batch() makes of them), batch by batch. Texts of one length
        share a batch, the longest first, so that little is padded."""
        most = self.batch_size if batch_size is None else batch_size
        if not 1 <= most <= self.batch_size:
            raise Error(f"batch_size: got {most}, expected 1 to {self.batch_size}", "input")
        tokens: list[_Tokens] = texts if tokenized else self._tokenizer(texts)
        order = sorted(range(len(texts)), key=lambda at: -len(tokens[at].ids))
        for begin in range(0, len(order), most):
            places = order[begin:begin + most]
            feeds, mask = self._feeds([tokens[at] for at in places])
            answer = self.session.run([self.output.name], feeds)[0]
            yield places, self._of_batch(np.asarray(answer[:len(places)], np.float32), mask)
            if progress is not None:
                progress(begin + len(places), len(order))

    def _of_batch(self, answer: Array, mask: Array) -> Array:
        raise NotImplementedError

    def _collect(self, texts: list[Any], batch_size: int | None,
                 progress: Callable[[int, int], None] | None, empty: tuple[int, ...], *,
                 tokenized: bool = False) -> Array:
        found: Array | None = None
        for places, rows in self._answers(texts, batch_size, progress, tokenized):
            if found is None:
                found = np.empty((len(texts), *rows.shape[1:]), np.float32)
            found[places] = rows
        return found if found is not None else np.empty(empty, np.float32)


def pooled(states: Array, mask: Array, pooling: str) -> Array:
    """States [batch, length, width] of tokens as one row [batch, width] each; the mask is 0 at
    padding."""
    if pooling == "cls":
        return states[:, 0]
    here = mask[:, :, None].astype(bool)
    if pooling == "last":
        last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
        return np.asarray(states[np.arange(len(states)), last])
    if pooling == "max":
        return np.asarray(np.where(here, states, -np.inf).max(axis=1), np.float32)
    total = np.where(here, states, 0).sum(axis=1, dtype=np.float64)
    return np.asarray(total / np.maximum(mask.sum(axis=1), 1)[:, None], np.float32)


class _Dense(NamedTuple):
    weight: Array
    bias: Array | None
    tanh: bool

    def __call__(self, rows: Array) -> Array:
        made = rows @ self.weight.T
        if self.bias is not None:
            made = made + self.bias
        return np.tanh(made) if self.tanh else made


class _Recipe(NamedTuple):
    """What a folder of sentence-transformers says of the steps behind the model."""

    pooling: str | None = None
    dense: tuple[_Dense, ...] = ()
    normalize: bool | None = None
    max_tokens: int | None = None


def _json(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Error(f"'{path}' is no JSON: {error}", "input") from error


def _pooling_of(folder: pathlib.Path) -> str:
    config = _json(folder / "config.json")
    names = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls",
             "pooling_mode_lasttoken": "last", "pooling_mode_max_tokens": "max"}
    asked = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    if len(asked) == 1 and asked[0] in names:
        return names[asked[0]]
    mode = config.get("pooling_mode")
    if not asked and mode in _POOLINGS:
        return str(mode)
    raise Error(f"'{folder / 'config.json'}' asks for {', '.join(asked) or mode}; expected one of "
                f"{', '.join(names)}", "input")


def _dense_of(folder: pathlib.Path) -> _Dense:
    config = _json(folder / "config.json")
    activation = str(config.get("activation_function", "")).split(".")[-1]
    if activation not in ("Tanh", "Identity"):
        raise Error(f"'{folder / 'config.json'}' has the activation '{activation}', expected Tanh or "
                    "Identity", "input")
    arrays = read_safetensors(folder / "model.safetensors")
    return _Dense(arrays["linear.weight"].astype(np.float32),
                  arrays["linear.bias"].astype(np.float32) if "linear.bias" in arrays else None,
                  activation == "Tanh")


def _recipe_of(folder: pathlib.Path) -> _Recipe:
    """Of modules.json, which SentenceTransformer.save() writes; nothing where there is none."""
    if not (folder / "modules.json").is_file():
        return _Recipe()
    recipe = _Recipe(normalize=False)
    for module in _json(folder / "modules.json"):
        what, where = str(module["type"]).split(".")[-1], folder / module.get("path", "")
        if what == "Transformer":
            config = where / "sentence_bert_config.json"
            if config.is_file():
                recipe = recipe._replace(max_tokens=_json(config).get("max_seq_length"))
        elif what == "Pooling":
            recipe = recipe._replace(pooling=_pooling_of(where))
        elif what == "Dense":
            recipe = recipe._replace(dense=(*recipe.dense, _dense_of(where)))
        elif what == "Normalize":
            recipe = recipe._replace(normalize=True)
        else:
            raise Error(f"'{folder / 'modules.json'}' has a module '{module['type']}', expected "
                        "Transformer, Pooling, Dense and Normalize", "input")
    return recipe


class TextEncoder(_TextModel):
    """An embedder: texts to vectors of float32.

        encoder = vernier.TextEncoder("minilm.vn", "all-MiniLM-L6-v2/")
        vectors = encoder.encode(["a text", "another one"])      # float32 [2, 384]

    engine      an Engine or the path of its file, which takes input_ids [batch, length], and
                attention_mask and token_type_ids where the model reads them.
    tokenizer   of the package tokenizers or transformers; or a tokenizer.json; or the model's
                folder. A folder of sentence-transformers also says pooling, Dense layers,
                normalization and the longest text.
    output      the engine's output; None: the only one of floats.
    pooling     "mean", "cls", "last" or "max" over an output [batch, length, width]. None: as the
                folder says; an output [batch, width] is taken as it is.
    normalize   vectors of length 1. None: as the folder says, else False.
    max_tokens  a text is cut to so many; None: as the folder or the tokenizer says, and no more
                than the engine takes.
    batch_size  rows of a run at most. Texts are sorted by length, so that little is padded; what a
                text gives does not depend on its neighbors.
    session     options of Session, such as threads.
    """

    def __init__(self, engine: Engine | Path, tokenizer: Any, *, output: str | None = None,
                 pooling: Pooling | None = None, normalize: bool | None = None,
                 max_tokens: int | None = None, batch_size: int = 32, **session: Any) -> None:
        recipe = _Recipe()
        if isinstance(tokenizer, (str, os.PathLike)) and os.path.isdir(tokenizer):
            recipe = _recipe_of(pathlib.Path(tokenizer))
        super().__init__(engine, tokenizer, output=output, max_tokens=max_tokens or
                         recipe.max_tokens, batch_size=batch_size, session=session)
        self.pooling: str | None = pooling or recipe.pooling
        self.normalize = bool(recipe.normalize if normalize is None else normalize)
        self._dense = recipe.dense
        if self.pooling is not None and self.pooling not in _POOLINGS:
            raise Error(f"pooling: got {self.pooling!r}, expected one of {', '.join(_POOLINGS)}",
                        "input")
        rank = len(self.output.shape)
        if rank == 2:
            self.pooling = None  # the engine's own
        elif rank != 3 or self.pooling is None:
            raise Error(f"output '{self.output.name}' has shape {self.output.shape}: expected "
                        "[batch, width], or [batch, length, width] and pooling='mean', 'cls', "
                        "'last' or 'max'", "input")

    @property
    def dimension(self) -> int:
        """Of a vector."""
        if self._dense:
            return len(self._dense[-1].weight)
        return int(self.output.shape[-1])

    def encode(self, texts: str | Sequence[str], *, batch_size: int | None = None,
               progress: Callable[[int, int], None] | None = None) -> Array:
        """float32 [len(texts), dimension]; of one text, [dimension].

        progress   called with the number of texts that are done, and of all.
        """
        given = [texts] if isinstance(texts, str) else list(texts)
        for at, text in enumerate(given):
            if not isinstance(text, str):
                raise Error(f"texts: number {at} is {kind(text)}, expected a str", "input")
        found = self._collect(given, batch_size, progress, (0, self.dimension))
        return found[0] if isinstance(texts, str) else found

    def as_module(self) -> Any:
        """A torch.nn.Module for sentence-transformers, which pools and normalizes as encode():

            SentenceTransformer(modules=[encoder.as_module()]).encode(texts)
        """
        return _sentence_transformers_module(self)

    def _of_batch(self, answer: Array, mask: Array) -> Array:
        rows = answer if self.pooling is None else pooled(answer, mask[:, :answer.shape[1]],
                                                          self.pooling)
        for dense in self._dense:
            rows = dense(rows)
        if self.normalize:
            rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return rows.astype(np.float32)


def _sentence_transformers_module(encoder: TextEncoder) -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise Error(f"as_module needs PyTorch: {error}; install torch and sentence-transformers",
                    "input") from error

    class Module(torch.nn.Module):  # type: ignore[name-defined, misc]
        """What SentenceTransformer asks of its first module."""

        max_seq_length = encoder.max_tokens

        def tokenize(self, texts: Sequence[str], **_: Any) -> dict[str, Any]:
            tokens = encoder._tokenizer(list(texts))
            feeds, mask = encoder._feeds(tokens)
            named = {"input_ids": "ids", "token_type_ids": "types"}
            roles = {role: feeds[port] for port, role in encoder._roles.items()}
            features = {name: roles[role][:len(tokens)] for name, role in named.items()
                        if role in roles}
            return {name: torch.from_numpy(array.astype(np.int64))
                    for name, array in (features | {"attention_mask": mask}).items()}

        preprocess = tokenize

        def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
            ids, mask = (features[name].cpu().numpy() for name in ("input_ids", "attention_mask"))
            types = features.get("token_type_ids")
            types = np.zeros_like(ids) if types is None else types.cpu().numpy()
            rows = [_Tokens(ids[at][mask[at] != 0], types[at][mask[at] != 0])
                    for at in range(len(ids))]
            vectors = encoder._collect(rows, None, None, (0, encoder.dimension), tokenized=True)
            features["sentence_embedding"] = torch.from_numpy(vectors).to(
                features["input_ids"].device)
            return features

        def get_sentence_embedding_dimension(self) -> int:
            return encoder.dimension

        get_embedding_dimension = get_sentence_embedding_dimension

        def save(self, *_: Any, **__: Any) -> None:
            raise Error("an engine is saved by build(); keep its file and make the module again",
                        "input")

    return Module()


class CrossEncoder(_TextModel):
    """A reranker or classifier of pairs: scores in float32.

        ranker = vernier.CrossEncoder("reranker.vn", "bge-reranker-large/")
        ranker.predict([("a query", "a document"), ("a query", "another")])     # float32 [2]
        ranker.rank("a query", documents, top_k=10)

    activation  "sigmoid" or "softmax" of the scores, or None: the model's own numbers. The other
                arguments are those of TextEncoder.
    """

    def __init__(self, engine: Engine | Path, tokenizer: Any, *, output: str | None = None,
                 activation: Literal["sigmoid", "softmax"] | None = None,
                 max_tokens: int | None = None, batch_size: int = 32, **session: Any) -> None:
        super().__init__(engine, tokenizer, output=output, max_tokens=max_tokens,
                         batch_size=batch_size, session=session)
        if activation not in (None, "sigmoid", "softmax"):
            raise Error(f"activation: got {activation!r}, expected 'sigmoid', 'softmax' or None",
                        "input")
        self.activation = activation
        if len(self.output.shape) not in (1, 2):
            raise Error(f"output '{self.output.name}' has shape {self.output.shape}: expected "
                        "[batch] or [batch, labels]", "input")

    def predict(self, pairs: Sequence[tuple[str, str]] | Sequence[str], *,
                batch_size: int | None = None,
                progress: Callable[[int, int], None] | None = None) -> Array:
        """Scores of pairs of texts (or of single texts): float32 [n], or [n, labels] where the
        model has several."""
        given = list(pairs)
        for at, pair in enumerate(given):
            whole = isinstance(pair, str)
            two = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(
                isinstance(text, str) for text in pair)
            if not (whole or two) or whole != isinstance(given[0], str):
                raise Error(f"pairs: number {at} is {pair!r:.80}, expected a pair of texts, as all "
                            "others", "input")
        scores = self._collect([p if isinstance(p, str) else tuple(p) for p in given], batch_size,
                               progress, (0,))
        return scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores

    def rank(self, query: str, documents: Sequence[str], *, top_k: int | None = None,
             batch_size: int | None = None) -> list[dict[str, Any]]:
        """The documents by their score for the query, best first: [{"corpus_id": place in
        `documents`, "score": float, "text": str}]. Equal scores keep their order."""
        scores = self.predict([(query, document) for document in documents],
                              batch_size=batch_size)
        if scores.ndim != 1:
            raise Error(f"rank: the engine gives {scores.shape[1]} scores for a pair, expected one",
                        "input")
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [{"corpus_id": int(at), "score": float(scores[at]), "text": documents[at]}
                for at in order]

    def _of_batch(self, answer: Array, mask: Array) -> Array:
        if self.activation == "sigmoid":
            return np.asarray(1 / (1 + np.exp(-answer)), np.float32)
        if self.activation == "softmax":
            powers = np.exp(answer - answer.max(axis=-1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float32)
        return answer
