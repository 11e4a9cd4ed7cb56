#!/usr/bin/env python3
"""Trains the model of ./dev demo: train_demo_reranker.py --out FOLDER [--minutes 7.5 | --steps 20]

A BERT-like cross-encoder (4 layers, 192 wide) learns which passage belongs to the first sentence of
a docstring, among those that BM25 finds closest; demo_corpus.py says where the texts come from.
FOLDER gets the files that tests/models/demo_reranker/README.md lists. checkpoint.pt is written as
training goes; --finish makes the rest from it. Needs torch, transformers, tokenizers, onnx and
onnxruntime; a GPU for a model worth having. Time-bound, so no two runs give the same weights.
"""

import argparse
import json
import time
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import demo_corpus as corpus
import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from transformers import BertConfig, BertForSequenceClassification

STARTED = time.time()
PAD, UNKNOWN, CLS, SEP, MASK = range(5)  # demo_corpus.SPECIAL_PIECES
PIECES = 4096
LENGTH, QUERY_LENGTH = 128, 32
PASSAGE_LENGTH = LENGTH - QUERY_LENGTH - 3  # [CLS] query [SEP] passage [SEP]
CANDIDATES, MINED = 12, 24
EVALUATION_QUERIES, EXAMPLES = 300, 10
PRETRAINING = 0.3  # share of the training time
RESERVE_SECONDS = 45  # of --minutes, for evaluation and export
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def log(text):
    print(f"[{time.time() - STARTED:6.1f} s] {text}", flush=True)


class Rows:
    """Encoded queries and passages of pairs; rows [CLS] query [SEP] passage [SEP] of them."""

    def __init__(self, pairs, tokenizer):
        queries = tokenizer.encode_all([x.query for x in pairs], QUERY_LENGTH)
        passages = tokenizer.encode_all([x.passage for x in pairs], PASSAGE_LENGTH)
        self.query, self.query_length = self.padded(queries, QUERY_LENGTH)
        self.passage, self.passage_length = self.padded(passages, PASSAGE_LENGTH)

    @staticmethod
    def padded(encoded, length):
        table = np.full((len(encoded), length), PAD)
        for i, (ids, _) in enumerate(encoded):
            table[i, : len(ids)] = ids
        return torch.tensor(table), torch.tensor([len(ids) for ids, _ in encoded])

    def to(self, device):
        for name, value in vars(self).items():
            setattr(self, name, value.to(device))
        return self

    def of(self, query, passage):
        """Indices [n] of queries and passages -> the model's inputs, each [n, LENGTH] int64."""
        at = torch.arange(LENGTH, device=query.device)[None]
        first = self.query_length[query][:, None] + 2  # where the passage begins
        last = first + self.passage_length[passage][:, None]  # its [SEP]
        q = self.query[query].gather(1, (at - 1).clamp(0, QUERY_LENGTH - 1).expand(len(query), -1))
        p = self.passage[passage].gather(1, (at - first).clamp(0, PASSAGE_LENGTH - 1))
        ids = torch.where(at < first, q, torch.where(at < last, p, PAD))
        ids = torch.where((at == first - 1) | (at == last), SEP, ids)
        ids[:, 0] = CLS
        return {
            "input_ids": ids,
            "attention_mask": (at <= last).long(),
            "token_type_ids": ((at >= first) & (at <= last)).long(),
        }


def masked(inputs, share):
    """The inputs with `share` of the pieces replaced by [MASK]; which [n, length] bool."""
    ids = inputs["input_ids"]
    hidden = (torch.rand(ids.shape, device=ids.device) < share) & (ids > MASK)
    return inputs | {"input_ids": torch.where(hidden, MASK, ids)}, hidden


def new_model(attention="sdpa"):
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=PIECES,
            hidden_size=192,
            num_hidden_layers=4,
            num_attention_heads=6,
            intermediate_size=768,
            max_position_embeddings=LENGTH,
            attention_probs_dropout_prob=0.0,
            num_labels=1,
            attn_implementation=attention,
        )
    )


class Training:
    """Hidden pieces and an easy choice of the right passage first, then the choice among BM25's."""

    def __init__(self, args, train, development, train_wrong, development_wrong):
        self.args, self.device = args, train.query.device
        self.train, self.development = train, development
        self.train_wrong = torch.tensor(train_wrong, device=self.device)
        self.development_wrong = torch.tensor(development_wrong, device=self.device)
        self.model = new_model().to(self.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=args.rate,
            betas=(0.9, 0.98),
            weight_decay=0.01,
            fused=self.device.type == "cuda",
        )
        self.begun = time.time()
        self.seconds = args.minutes * 60 - RESERVE_SECONDS - (self.begun - STARTED)

    def progress(self, step):
        """0 at the start, 1 where the steps or the time are spent."""
        if self.args.steps:
            return step / self.args.steps
        return (time.time() - self.begun) / max(self.seconds, 1)

    def pick(self, n):
        return torch.randint(len(self.train.query), (n,), device=self.device)

    def hidden_pieces_loss(self, n):
        pick = self.pick(n)
        whole = self.train.of(pick, pick)
        inputs, hidden = masked(whole, 0.2)
        states = self.model.bert(**inputs).last_hidden_state[hidden]
        logits = states @ self.model.bert.embeddings.word_embeddings.weight.T
        return F.cross_entropy(logits.float(), whole["input_ids"][hidden])

    def ranking_loss(self, n, hard):
        """The wrong passages are BM25's where hard, any ones otherwise."""
        pick, wrong = self.pick(n), self.pick(n * (CANDIDATES - 1)).view(n, -1)
        if hard:
            some = torch.rand(n, MINED, device=self.device).argsort(1)[:, : CANDIDATES - 1]
            wrong = self.train_wrong[pick].gather(1, some)
        candidates = torch.cat([pick[:, None], wrong], 1)
        queries = pick[:, None].expand_as(candidates)
        inputs, _ = masked(self.train.of(queries.reshape(-1), candidates.reshape(-1)), 0.1)
        scores = self.model(**inputs).logits.view(n, CANDIDATES).float()
        return F.cross_entropy(scores, torch.zeros(n, dtype=torch.int64, device=self.device))

    @torch.no_grad()
    def development_score(self):
        n = len(self.development.query)
        rows = torch.arange(0, n, 1 + n // 500, device=self.device)[:, None]
        candidates = torch.cat([rows, self.development_wrong[rows[:, 0]]], 1)
        self.model.eval()
        scores = [
            self.model(**self.development.of(q.expand_as(c).reshape(-1), c.reshape(-1))).logits
            for q, c in zip(rows.split(50), candidates.split(50), strict=True)
        ]
        self.model.train()
        scores = torch.cat(scores).view(candidates.shape).cpu().numpy()
        return figures(scores, np.zeros(len(scores), int))[0]

    def step(self, progress):
        rate = self.args.rate * min(progress / 0.05, 1 - progress)
        self.optimizer.param_groups[0]["lr"] = rate
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            if progress < PRETRAINING:
                n = self.args.batch // 2
                loss = self.hidden_pieces_loss(n * CANDIDATES) + self.ranking_loss(n, hard=False)
            else:
                loss = self.ranking_loss(self.args.batch, hard=True)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def run(self, out):
        step, said = 0, time.time()
        while (progress := self.progress(step)) < 1:
            loss = self.step(progress)
            step += 1
            if time.time() - said > 30 or self.progress(step) >= 1:
                said = time.time()
                self.save(out, step)
                part = "first part" if progress < PRETRAINING else "ranking"
                score = self.development_score()
                log(f"{part}, step {step}, loss {loss.item():.3f}, development MRR {score:.3f}")

    def save(self, out, step):
        where = torch.cuda.get_device_name() if self.device.type == "cuda" else "a CPU"
        training = (
            f"trained in {step} steps of {self.args.batch} queries, "
            f"{(time.time() - self.begun) / 60:.1f} minutes on {where}, PyTorch {torch.__version__}"
        )
        torch.save({"model": self.model.state_dict(), "training": training}, out / "checkpoint.pt")


def write_evaluation(pairs, picks, tokenizer, out):
    """eval.npz and examples.json, but for the model's scores: they are made before training."""
    others, own, theirs = (x[picks] for x in corpus.hardest((pairs, CANDIDATES - 1)))
    # The right passage may stand anywhere in its list.
    order = np.tile(np.arange(CANDIDATES), (len(picks), 1))
    order = np.random.default_rng(2).permuted(order, axis=1)
    candidates = np.take_along_axis(np.c_[picks, others], order, 1)
    bm25 = np.take_along_axis(np.c_[own, theirs], order, 1).astype(np.float32)
    labels = np.argmax(order == 0, 1)
    queries = torch.tensor(np.repeat(picks, CANDIDATES))
    inputs = Rows(pairs, tokenizer).of(queries, torch.tensor(candidates.reshape(-1)))
    arrays = {k: v.numpy() for k, v in inputs.items()}
    searched = np.array([len(pairs)])
    np.savez_compressed(out / "eval.npz", **arrays, labels=labels, bm25=bm25, searched=searched)
    chosen = zip(picks, labels, candidates, bm25, strict=True)
    examples = [
        {
            "query": pairs[pick].query,
            "right": int(label),
            "passages": [
                {"name": pairs[i].full_name, "text": pairs[i].passage, "bm25": round(s, 3)}
                for i, s in zip(row, scores.tolist(), strict=True)
            ],
        }
        for pick, label, row, scores in islice(chosen, EXAMPLES)
    ]
    write_json(out / "examples.json", examples)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def logits_fp64(model, arrays, rows=20 * CANDIDATES):
    model.double().eval()
    parts = [
        {k: torch.tensor(arrays[k][i : i + rows]) for k in INPUTS}
        for i in range(0, len(arrays["input_ids"]), rows)
    ]
    with torch.no_grad():
        return np.concatenate([model(**x).logits.numpy() for x in parts])


def export(model, path):
    torch.onnx.export(
        model.float().eval(),
        tuple(torch.ones(2, 9, dtype=torch.int64) for _ in INPUTS),
        path,
        input_names=list(INPUTS),
        output_names=["logits"],
        dynamic_axes={k: {0: "batch", 1: "length"} for k in INPUTS} | {"logits": {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )


def write_cases(arrays, logits, out):
    """For the golden tests: a whole query, one row, three of unequal length, two of the longest."""
    lengths = arrays["attention_mask"].sum(1)
    order = np.argsort(lengths, kind="stable")
    n = len(order)
    cases = np.arange(CANDIDATES), order[[n // 3]], order[[0, n // 4, n // 2]], order[-2:]
    for i, rows in enumerate(cases):
        inputs = {f"in.{k}": arrays[k][rows, : lengths[rows].max()] for k in INPUTS}
        np.savez_compressed(out / f"case_{i}.npz", **inputs, **{"out.logits": logits[rows]})


def write_manifest_row(out, logits, error):
    """The model's line for tests/models/manifest.jsonl."""
    path = out / "model.onnx"
    row = {
        "name": "demo_reranker",
        "ok": True,
        "opset": 17,
        "dynamo": False,
        "inputs": list(INPUTS),
        "outputs": ["logits"],
        "bytes": path.stat().st_size,
        "absmax": float(np.abs(logits).max()),
        "onnxruntime_max_abs_err": error,
        "ops": dict(Counter(x.op_type for x in onnx.load(path).graph.node)),
    }
    (out / "manifest_row.json").write_text(json.dumps(row) + "\n")


def figures(scores, labels):
    """(MRR, share of queries with the right passage first) of scores [queries, CANDIDATES]."""
    own = np.take_along_axis(scores, labels[:, None], 1)
    above = (scores > own).sum(1) + 0.5 * ((scores == own).sum(1) - 1)  # a tie counts half
    return np.mean(1 / (1 + above)), np.mean(above == 0)


def score_table(scores, bm25, labels):
    """Markdown lines: any order, BM25 and the model, on all queries and on those whose right
    passage BM25 itself ranks among the first CANDIDATES - 1."""
    own = np.take_along_axis(bm25, labels[:, None], 1)
    found = (bm25 > own).sum(1) < CANDIDATES - 1
    chance = np.mean(1 / np.arange(1, CANDIDATES + 1)), 1 / CANDIDATES
    rows = {"any order": chance * 2}
    for name, x in (("BM25", bm25), ("the model", scores)):
        rows[name] = figures(x, labels) + figures(x[found], labels[found])
    lines = [
        f"| | MRR, all {len(labels)} queries | first is right "
        f"| MRR, the {found.sum()} queries that BM25 finds | first is right |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        lines.append("| ".join([f"| {name} ", *(f"{x:.3f} " for x in row)]) + "|")
    return lines


def finish(out):
    """From checkpoint.pt, eval.npz and examples.json to the other files."""
    model = new_model("eager")
    checkpoint = torch.load(out / "checkpoint.pt", map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    export(model, out / "model.onnx")
    arrays = dict(np.load(out / "eval.npz"))
    logits = logits_fp64(model, arrays)
    np.savez_compressed(out / "eval.npz", **(arrays | {"logits": logits}))
    write_cases(arrays, logits, out)
    examples = json.loads((out / "examples.json").read_text())
    for example, scores in zip(examples, logits.reshape(-1, CANDIDATES).tolist(), strict=False):
        for passage, score in zip(example["passages"], scores, strict=True):
            passage["score"] = round(score, 3)
    write_json(out / "examples.json", examples)
    session = onnxruntime.InferenceSession(out / "model.onnx")
    some = slice(0, 20 * CANDIDATES)
    got = session.run(None, {k: arrays[k][some] for k in INPUTS})[0]
    error = float(np.abs(got - logits[some]).max())
    write_manifest_row(out, logits, error)
    table = score_table(logits.reshape(-1, CANDIDATES), arrays["bm25"], arrays["labels"])
    table += [
        "",
        f"Chosen by BM25 among {arrays['searched'][0]} passages of modules not trained on.",
        f"{sum(x.numel() for x in model.parameters()) / 1e6:.2f} M parameters; "
        f"{checkpoint['training']}.",
        f"ONNX Runtime in FP32 against PyTorch in FP64: at most {error:.1e} apart.",
    ]
    (out / "figures.md").write_text("\n".join(table) + "\n")
    sizes = {x.name: x.stat().st_size for x in sorted(out.iterdir()) if x.suffix != ".pt"}
    log(f"{sum(sizes.values()) / 1e6:.2f} MB: {sizes}")
    print("\n".join(table))


def prepare(args, out):
    """Reads the corpus, learns the word pieces, and writes what finish() needs besides the model.
    Returns the rows to train on and of the development pairs, and the wrong passages of both."""
    packages = [x for x in corpus.PACKAGES if corpus.folder_of(x)]
    found = corpus.collect(packages, args.share)
    log(f"{len(found)} pairs of {len(packages)} packages")
    texts = [f"{x.query} {x.passage}" for x in found if x.split == "train"]
    tokenizer = corpus.WordPieces.learn(texts, PIECES)
    (out / "tokenizer.txt").write_text("\n".join(tokenizer.pieces) + "\n")
    log("word pieces learned")
    cut = {}  # by passage: what the model can see of it stands once
    passages = tokenizer.encode_all([x.passage for x in found], PASSAGE_LENGTH)
    for pair, (_, passage) in zip(found, passages, strict=True):
        cut.setdefault(passage, replace(pair, passage=passage))
    splits = {split: [x for x in cut.values() if x.split == split] for split in corpus.SPLITS}
    train, development, evaluation = splits.values()
    kinds = dict(Counter(x.kind for x in train))
    log(f"{ {k: len(x) for k, x in splits.items()} }; train {kinds}")
    picks = corpus.evaluation_queries(evaluation, train, EVALUATION_QUERIES)
    write_evaluation(evaluation, picks, tokenizer, out)
    log(f"{len(picks)} evaluation queries {dict(Counter(evaluation[i].package for i in picks))}")
    (out / "NOTICE").write_text(corpus.notice(packages))
    wrong = corpus.mine(train, MINED), corpus.mine(development, CANDIDATES - 1)
    log("BM25 has chosen the wrong passages to train on")
    return [Rows(x, tokenizer) for x in (train, development)], wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--minutes", type=float, default=7.5, help="for everything together")
    parser.add_argument("--steps", type=int, default=0, help="this many steps instead: a quick try")
    parser.add_argument("--batch", type=int, default=96, help="queries of a step")
    parser.add_argument("--rate", type=float, default=8e-4, help="largest learning rate")
    parser.add_argument("--share", type=float, default=1, help="share of the source files to read")
    parser.add_argument("--finish", action="store_true", help="only export OUT/checkpoint.pt")
    return parser.parse_args()


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.finish:
        torch.manual_seed(0)
        rows, wrong = prepare(args, args.out)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        log(f"training on {device}")
        Training(args, *(x.to(device) for x in rows), *wrong).run(args.out)
    finish(args.out)


if __name__ == "__main__":
    main()
