"""Queries and passages from docstrings of installed Python packages, their word pieces, and BM25.

Used by train_demo_reranker.py. A query is the first sentence of a docstring; its passage is what
signature and docstring say besides, with that sentence and the function's own name cut out.
Sources are parsed, never imported, and only the packages of PACKAGES are read.
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import math
import platform
import re
import sysconfig
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

LICENCES = {
    "PSF-2.0": "python matplotlib",
    "BSD-3-Clause": "numpy scipy pandas sklearn skimage networkx sympy statsmodels torch mpmath "
    "torchvision seaborn h5py joblib fsspec tifffile click jinja2 werkzeug markdown",
    "BSD-2-Clause": "torchaudio numba patsy imageio pygments",
    "Apache-2.0": "transformers xarray accelerate peft huggingface_hub sentence_transformers jax "
    "torchmetrics pytorch_lightning timm flax optax chex numpyro orbax equinox diffrax optimistix "
    "tensorboard pyarrow onnx onnx_ir aiohttp requests absl",
    "MIT": "onnxruntime onnxscript cupy gpytorch botorch linear_operator torch_geometric e3nn "
    "triton rich pytest narwhals formulaic setuptools",
}
PACKAGES = {package: name for name, row in LICENCES.items() for package in row.split()}
# Some modules of these are kept out of training; evaluation queries and passages come from them.
# tests/models/demo_reranker/LICENSES.txt holds their licences.
EVALUATED = "python numpy scipy pandas sklearn skimage networkx sympy statsmodels torch".split()
SKIPPED_FOLDERS = re.compile(
    r"/(tests?|testing|_testing|_lib|\w*vendor\w*|extern|externals|third_party|"
    r"site-packages|dist-packages|idlelib|lib2to3|encodings|examples?)/"
)
# Private parts of those packages are for training: their docstrings are no pleasure to read.
PRIVATE = re.compile(r"_(?!core\.|torch_docs|tensor_docs)")
SPLITS = ("train", "development", "evaluation")
EVALUATED_SHARE = 15  # of 100 modules
DEVELOPMENT_SHARE = 3
SPECIAL_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]  # ids 0 to 4
CODE_CHARACTERS = 1500
GROUP = 4096  # passages that BM25 searches at once when it looks for wrong ones to train on
PASSAGE_WORDS = 100  # the tokeniser cuts further


@dataclass(frozen=True)
class Pair:
    """A query and its passage. kind: doc (docstring), code (the body), or cloze (a sentence of the
    docstring and what stands around it); split: one of SPLITS."""

    package: str
    module: str
    name: str
    kind: str
    split: str
    query: str
    passage: str

    @property
    def full_name(self):
        parts = [self.package, *self.module.split("."), self.name]
        return ".".join(x for x in parts if x not in ("python", "__init__"))


@cache
def distributions():
    return importlib.metadata.packages_distributions()


def version_of(package):
    if package == "python":
        return platform.python_version()
    return importlib.metadata.version(distributions()[package][0])


def folder_of(package):
    """The folder with the package's sources, or None where it is not installed."""
    if package == "python":
        return Path(sysconfig.get_paths()["stdlib"])
    if package not in distributions():
        return None
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) if places else None


NOTICE = """eval.npz, examples.json and case_<i>.npz hold excerpts, cut and with names removed, of
docstrings of these packages; LICENSES.txt beside this file holds their licences.

{evaluated}

tokenizer.txt and the weights of model.onnx were learned from docstrings and code of these:

{learned}
"""


def notice(packages):
    rows = {x: f"{x} {version_of(x)} {PACKAGES[x]}" for x in packages}
    evaluated = "\n".join(rows[x] for x in packages if x in EVALUATED)
    return NOTICE.format(evaluated=evaluated, learned="\n".join(rows.values()))


def split_of(package, module):
    if package not in EVALUATED or PRIVATE.match(module):
        return "train"
    share = int(hashlib.md5(f"{package}.{module}".encode()).hexdigest(), 16) % 100
    if share < EVALUATED_SHARE:
        return "evaluation"
    return "development" if share < EVALUATED_SHARE + DEVELOPMENT_SHARE else "train"


def words(text):
    """Lower-case words and numbers, identifiers split at underscores and capitals: what both the
    word pieces and BM25 see of a text."""
    return re.findall(r"[a-z]+|[0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower())


def plain(text):
    """reStructuredText to running text, up to the examples."""
    text = re.split(r"\n\s*(?:Examples?|References|See Also|Notes?)\s*:*\s*\n|>>>", text)[0]
    text = re.sub(r":[a-z:]+:`~?([^`<]*)(?:<[^`]*>)?`", r"\1", text)
    text = re.sub(r"\.\. [a-z:-]+::.*", " ", text)
    return " ".join(re.sub(r"[`*|\\{}$]+|[-=~_.]{3,}", " ", text).split())


def first_sentence(docstring):
    """(first sentence, the rest)."""
    paragraphs = docstring.strip().split("\n\n", 1)
    if re.match(r"[\w.]+\(.*\)", paragraphs[0], re.S) and len(paragraphs) > 1:
        paragraphs = paragraphs[1].strip().split("\n\n", 1)  # a signature came first
    found = re.match(r"(.+?[a-z)\]`])\.(?=\s|$)(.*)", paragraphs[0], re.S)
    first, more = found.groups() if found else (paragraphs[0], "")
    return plain(first).rstrip("."), plain("\n\n".join([more, *paragraphs[1:]]))


def documented(tree, lines):
    """(name, argument names, docstring, code) of what a module documents."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            docstring = ast.get_docstring(node)
            if not docstring:
                continue
            names, code = [], ""
            if not isinstance(node, ast.ClassDef):
                of = node.args
                names = [x.arg for x in of.posonlyargs + of.args + of.kwonlyargs]
                code = "\n".join(lines[node.body[0].end_lineno : node.end_lineno])
            yield node.name, [x for x in names if x not in ("self", "cls")], docstring, code
        elif isinstance(node, ast.Call) and len(node.args) >= 2:
            # numpy and torch document their C functions so: add_docstr(function, text)
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called in ("add_docstr", "add_newdoc"):
                texts = [getattr(x, "value", None) for x in ast.walk(node.args[-1])]
                texts = [x for x in texts if isinstance(x, str)] or [""]
                name = getattr(node.args[-2], "value", None)
                name = name if isinstance(name, str) else ast.unparse(node.args[-2])
                yield name.split(".")[-1], [], max(texts, key=len), ""


def cloze(text):
    """(a sentence of the text, the text without it), or None; the same for the same text."""
    sentences = re.split(r"(?<=[a-z)])\. ", text)
    picks = [i for i, x in enumerate(sentences) if 6 <= len(x.split()) <= 24]
    if len(sentences) < 4 or not picks:
        return None
    pick = picks[len(text) % len(picks)]
    return sentences[pick], ". ".join(sentences[:pick] + sentences[pick + 1 :])


def pairs_of_file(task):
    package, root, path = task
    try:
        text = Path(path).read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    module = ".".join(Path(path).relative_to(root).with_suffix("").parts)
    split, result = split_of(package, module), []
    for name, names, docstring, code in documented(tree, text.splitlines()):
        query, rest = first_sentence(docstring)
        if not 4 <= len(query.split()) <= 24:
            continue
        own = re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])")
        texts = [("doc", query, rest), ("code", query, plain(code[:CODE_CHARACTERS]))]
        texts += [("cloze", *cloze(rest))] if cloze(rest) else []
        for kind, question, body in texts:
            signature = [f"({', '.join(names)})"] if names else []
            passage = " ".join(signature + own.sub(" ", body).split()[:PASSAGE_WORDS])
            if len(words(body)) >= 12 and (kind == "doc" or split == "train"):
                result.append(Pair(package, module, name, kind, split, question, passage))
    return result


def collect(packages, share=1.0):
    """All pairs, no query or passage of one kind twice. share: of the files, for a quick try."""
    tasks = []
    for package in packages:
        root = folder_of(package)
        for path in sorted(root.rglob("*.py")) if root else []:
            if not SKIPPED_FOLDERS.search("/" + path.relative_to(root).as_posix()):
                tasks.append((package, str(root), str(path)))
    tasks = tasks[:: max(1, round(1 / share))]
    with Pool() as pool:
        pairs = [x for found in pool.map(pairs_of_file, tasks, chunksize=32) for x in found]
    result, seen = [], set()
    for pair in sorted(pairs, key=lambda x: x.split):  # what is held out first: it wins
        question, passage = " ".join(words(pair.query)), " ".join(words(pair.passage))
        if not {question, (pair.kind, question), passage} & seen:
            result.append(pair)
            seen |= {passage, (pair.kind, question) if pair.split == "train" else question}
    return result


def five_grams(text):
    w = words(text)
    return {hash(tuple(w[i : i + 5])) for i in range(len(w) - 4)}


def without_copies(evaluation, train, limit=0.5):
    """The evaluation pairs of whose passages at most `limit`, in five-word runs, stands in training
    passages: packages copy docstrings from each other."""
    seen = set()
    for pair in train:
        seen |= five_grams(pair.passage)
    return [
        pair
        for pair, grams in ((x, five_grams(x.passage)) for x in evaluation)
        if len(grams & seen) <= limit * len(grams)
    ]


def evaluation_queries(pairs, train, count):
    """Indices of up to `count` public, readable pairs, copies left out, evenly over the
    packages."""
    fresh = set(without_copies(pairs, train))
    by_package = {}
    for i, pair in enumerate(pairs):
        readable = re.fullmatch(r"[A-Z][A-Za-z0-9 ,'()./-]*", pair.query)
        if pair in fresh and readable and pair.name[0] != "_" and len(pair.query.split()) <= 18:
            by_package.setdefault(pair.package, []).append(i)
    rng, picks = np.random.default_rng(1), []
    for rows in by_package.values():
        rng.shuffle(rows)
    while len(picks) < count and any(by_package.values()):
        picks += [rows.pop() for rows in by_package.values() if rows]
    return picks[:count]


class WordPieces:
    """Words of demo_words() to ids: greedy longest match, later pieces begin with ##."""

    def __init__(self, pieces):
        self.pieces, self.ids, self.known = pieces, {x: i for i, x in enumerate(pieces)}, {}

    @classmethod
    def learn(cls, texts, size):
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.train_from_iterator(
            (" ".join(words(x)) for x in texts),
            trainers.WordPieceTrainer(
                vocab_size=size, special_tokens=SPECIAL_PIECES, show_progress=False
            ),
        )
        vocabulary = tokenizer.get_vocab()
        return cls(sorted(vocabulary, key=vocabulary.get))

    def word(self, word):
        if word not in self.known:
            result, start = [], 0
            while start < len(word):
                prefix = "##" if start else ""
                ends = range(len(word), start, -1)
                end = next((e for e in ends if prefix + word[start:e] in self.ids), None)
                if end is None:
                    result = [self.ids["[UNK]"]]
                    break
                result.append(self.ids[prefix + word[start:end]])
                start = end
            self.known[word] = result
        return self.known[word]

    def encode(self, text, limit):
        """(ids, the part of the text that they stand for): whole words, at most `limit` pieces."""
        ids, kept = [], []
        for part in text.split():
            more = [i for word in words(part) for i in self.word(word)]
            if len(ids) + len(more) > limit:
                break
            ids += more
            kept.append(part)
        return ids, " ".join(kept)

    def encode_all(self, texts, limit):
        with Pool() as pool:
            return pool.map(partial(self.encode, limit=limit), texts, chunksize=2000)


def terms(text):
    """BM25's words, the plural s cut off."""
    return [w[:-1] if len(w) > 3 and w.endswith("s") else w for w in words(text)]


class BM25:
    """Okapi BM25 (Robertson and Zaragoza, 2009), k1 = 1.2, b = 0.75."""

    def __init__(self, passages, k1=1.2, b=0.75):
        counts = [Counter(terms(x)) for x in passages]
        lengths = np.array([sum(x.values()) for x in counts], float)
        norm = k1 * (1 - b + b * lengths / lengths.mean())
        postings = defaultdict(list)
        for i, count in enumerate(counts):
            for term, n in count.items():
                postings[term].append((i, n))
        self.size, self.weights = len(passages), {}
        for term, rows in postings.items():
            at, n = np.array(rows).T
            idf = math.log(1 + (self.size - len(rows) + 0.5) / (len(rows) + 0.5))
            self.weights[term] = at, idf * n * (k1 + 1) / (n + norm[at])

    def scores(self, query):
        result = np.zeros(self.size)
        for term in set(terms(query)) & self.weights.keys():
            at, weight = self.weights[term]
            result[at] += weight
        return result


def hardest(task):
    """(pairs, count) -> for each pair the `count` other pairs whose passages BM25 ranks highest for
    its query, best first [n, count]; the scores of its own passage [n] and of those [n, count]."""
    pairs, count = task
    index = BM25([x.passage for x in pairs])
    others, own, theirs = [], [], []
    for i, pair in enumerate(pairs):
        scores = index.scores(pair.query)
        own.append(scores[i])
        scores[i] = -1
        best = np.argsort(-scores, kind="stable")[:count]
        others.append(best)
        theirs.append(scores[best])
    return np.array(others), np.array(own), np.array(theirs)


def mine(pairs, count):
    """For each pair the indices of `count` others of its kind that BM25 confuses with it."""
    order = np.random.default_rng(0).permutation(len(pairs))
    groups = []
    for kind in sorted({x.kind for x in pairs}):
        of_kind = [i for i in order if pairs[i].kind == kind]
        parts = max(1, len(of_kind) // GROUP)
        groups += [x for x in np.array_split(np.array(of_kind, int), parts) if len(x) > count]
    result = np.tile(order[:1], (len(pairs), count))
    with Pool() as pool:
        tasks = [([pairs[i] for i in x], count) for x in groups]
        found = pool.map(hardest, tasks, chunksize=1)
    for group, (others, _, _) in zip(groups, found, strict=True):
        result[group] = group[others]
    return result
