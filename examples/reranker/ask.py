"""Asks the service for the order of an example's passages: ask.py URL EXAMPLES.json NUMBER"""
import json
import sys
import urllib.request


def main():
    url, path, number = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        example = json.load(file)[int(number)]
    question = {"query": example["query"],
                "passages": [passage["text"] for passage in example["passages"]]}
    with urllib.request.urlopen(url, json.dumps(question).encode()) as answer:
        found = json.load(answer)
    print(example["query"])
    for row in found["order"][:3]:
        right = " (the right one)" if row == example["right"] else ""
        print(f"{found['scores'][row]:8.3f}  {example['passages'][row]['name']}{right}")


if __name__ == "__main__":
    main()
