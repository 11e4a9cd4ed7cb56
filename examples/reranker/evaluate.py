"""Ranks the first queries of an evaluation set: evaluate.py EVAL.npz ENGINE.vn...

For each engine the mean of 1 / (rank of the right passage), how many first places differ from those
of PyTorch in FP64, and the largest difference of a score.
"""
import sys

import numpy as np
import vernier

QUERIES, CANDIDATES = 60, 12


def scores_of(engine, arrays):
    session = vernier.Session(engine)
    scores = []
    for query in range(QUERIES):
        rows = slice(query * CANDIDATES, (query + 1) * CANDIDATES)
        length = arrays["attention_mask"][rows].sum(1).max()
        inputs = {port.name: arrays[port.name][rows, :length] for port in session.engine.inputs}
        scores.append(session.run(inputs)["logits"][:, 0])
    return np.array(scores)


def mean_reciprocal_rank(scores, right):
    own = np.take_along_axis(scores, right[:, None], 1)
    return np.mean(1 / (1 + (scores > own).sum(1)))


def main():
    arrays = dict(np.load(sys.argv[1]))
    right = arrays["labels"][:QUERIES]
    exact = arrays["logits"][:QUERIES * CANDIDATES].reshape(QUERIES, CANDIDATES)
    print(f"{'PyTorch in FP64':<20} MRR {mean_reciprocal_rank(exact, right):.3f}")
    for engine in sys.argv[2:]:
        scores = scores_of(engine, arrays)
        changed = (scores.argmax(1) != exact.argmax(1)).sum()
        print(f"{engine:<20} MRR {mean_reciprocal_rank(scores, right):.3f}, {changed} of {QUERIES} "
              f"first places changed, scores differ by at most {np.abs(scores - exact).max():.1e}")


if __name__ == "__main__":
    main()
