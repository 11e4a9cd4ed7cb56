"""Texts as the reranker reads them: word pieces, and rows of a query with each of its passages."""
import re

import numpy as np

PAD, UNKNOWN, CLS, SEP = range(4)
LENGTH, QUERY_LENGTH = 128, 32  # that the model was trained with
SHORTEST = 8  # shorter rows are padded: the engine is verified from here on


class WordPieces:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.ids = {piece: number for number, piece in enumerate(file.read().split("\n"))}

    def of_word(self, word):
        """The longest pieces from the left; those behind the first begin with ##."""
        found, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            end = next((end for end in range(len(word), start, -1)
                        if prefix + word[start:end] in self.ids), None)
            if end is None:
                return [UNKNOWN]
            found.append(self.ids[prefix + word[start:end]])
            start = end
        return found

    def of_text(self, text, most):
        """Whole words, split at underscores and capitals, in at most so many pieces."""
        found = []
        for part in text.split():
            words = re.findall("[a-z]+|[0-9]+", re.sub("([a-z])([A-Z])", r"\1 \2", part).lower())
            pieces = [piece for word in words for piece in self.of_word(word)]
            if len(found) + len(pieces) > most:
                break
            found += pieces
        return found

    def rows(self, query, passages):
        """The model's inputs, [passages, length] each: [CLS] query [SEP] passage [SEP]."""
        query = [CLS, *self.of_text(query, QUERY_LENGTH), SEP]
        most = LENGTH - QUERY_LENGTH - 3
        rows = [[*query, *self.of_text(passage, most), SEP] for passage in passages]
        shape = len(rows), max(SHORTEST, *(len(row) for row in rows))
        inputs = {name: np.zeros(shape, np.int64)
                  for name in ("input_ids", "attention_mask", "token_type_ids")}
        for number, row in enumerate(rows):
            inputs["input_ids"][number, :len(row)] = row
            inputs["attention_mask"][number, :len(row)] = 1
            inputs["token_type_ids"][number, len(query):len(row)] = 1
        return inputs
