#!/usr/bin/env python3
"""Loads a model.pt in PyTorch and scores it on IDX files, as somebody without longhaul would.

    /usr/bin/python3 tests/python/load_model.py runs/NAME/model.pt \
        data/mnist/t10k-images-idx3-ubyte data/mnist/t10k-labels-idx1-ubyte --accuracy 0.97

Prints the accuracy. Exit code 1 if it is not the one given (within --tolerance), 2 for a file that
cannot be read. --mean and --std are those of the job's [data] table.
"""
import argparse
import struct
import sys

import torch


def read_idx(path):
    with open(path, "rb") as file:
        data = file.read()
    zero, kind, dimensions = struct.unpack(">HBB", data[:4])
    if zero != 0 or kind != 8:
        raise ValueError(f"{path} is no IDX file of unsigned bytes")
    extents = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    values = torch.frombuffer(bytearray(data[4 + 4 * dimensions :]), dtype=torch.uint8)
    return values.reshape(extents)


def score(model, images, labels, batch=500):
    correct = 0
    with torch.no_grad():
        for begin in range(0, len(labels), batch):
            logits = model(images[begin : begin + batch])
            # A binary model answers the logit of class 1.
            guess = logits[:, 0] > 0 if logits.shape[1] == 1 else logits.argmax(1)
            correct += (guess.long() == labels[begin : begin + batch]).sum().item()
    return correct / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("images")
    parser.add_argument("labels")
    parser.add_argument("--accuracy", type=float, help="what it has to be")
    parser.add_argument("--tolerance", type=float, default=1e-9)
    parser.add_argument("--mean", type=float, default=0.0)
    parser.add_argument("--std", type=float, default=1.0)
    args = parser.parse_args()
    try:
        images, labels = read_idx(args.images), read_idx(args.labels)
        model = torch.jit.load(args.model)
    except (OSError, ValueError, RuntimeError, struct.error) as error:
        print(f"load_model.py: {error}", file=sys.stderr)
        return 2
    images = (images.unsqueeze(1).float() / 255 - args.mean) / args.std
    accuracy = score(model, images, labels.long())
    print(f"{accuracy:.6f}")
    if args.accuracy is not None and abs(accuracy - args.accuracy) > args.tolerance:
        print(f"load_model.py: expected {args.accuracy:.6f}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
