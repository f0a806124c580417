"""Train a small cross-encoder from manuals in HTML: ``python -m bench.train_reranker STEP …`` (docs/reranker.md).

``data MANUALS GROUPS --apart FOLDER …`` writes questions with passages, JSONL. MANUALS holds a folder a manual; what the PDFs and
question files of the folders ``--apart`` share with it, by digest or by 13 words in a row, is left out and counted.
``train GROUPS MODEL`` trains a ranker with two outputs, how well a passage ranks and if it answers, from MiniLM's weights,
and writes it in 8 bits as ONNX; data, seed and processor decide its bytes. ``test GROUPS MODEL`` measures it on
manuals that were not trained on. ``rank CORPUS QUESTIONS MODEL`` puts the rows of the default preset in its order, alone and with
the preset's rank, and prints what changes, with the ends of an interval of 90 %; questions as for ``bench.retrieval``.
"""

import argparse
from pathlib import Path

from bench.train_reranker.groups import write_groups
from bench.train_reranker.ranker import test, train
from bench.train_reranker.ranking import report


def main() -> None:
    """Do one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step")
    data = steps.add_parser("data")
    data.add_argument("manuals", type=Path)
    data.add_argument("groups", type=Path)
    data.add_argument("--apart", type=Path, nargs="*", default=[])
    for name in ("train", "test"):
        step = steps.add_parser(name)
        step.add_argument("groups", type=Path)
        step.add_argument("model", type=Path)
        if name == "train":
            step.add_argument("--layers", default="0,2,5", help="of MiniLM's six")
            step.add_argument("--most", type=int, default=11_000, help="groups")
            step.add_argument("--skip", type=int, default=0, help="groups of an earlier training")
            step.add_argument("--start", type=Path, help="the state of an earlier training that goes on, MODEL.pt")
            step.add_argument("--kinds", default=".*", help="a regular expression for the kinds of questions")
    ranking = steps.add_parser("rank")
    ranking.add_argument("corpus")
    ranking.add_argument("questions", type=Path)
    ranking.add_argument("model", type=Path)
    ranking.add_argument("--rows", type=int, default=30, help="rows that are judged")
    arguments = parser.parse_args()
    match arguments.step:
        case "data":
            write_groups(arguments.manuals, arguments.groups, arguments.apart)
        case "train":
            layers = [int(layer) for layer in arguments.layers.split(",")]
            train(
                arguments.groups,
                arguments.model,
                layers=layers,
                most=arguments.most,
                skipped=arguments.skip,
                kinds=arguments.kinds,
                start=arguments.start,
            )
        case "test":
            print(test(arguments.groups, arguments.model))
        case "rank":
            print(report(arguments.corpus, arguments.questions, arguments.model, arguments.rows))
        case _:
            print("train_reranker: name a step: data, train, test or rank")


if __name__ == "__main__":
    main()
