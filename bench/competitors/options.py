"""The command line that the competitors' scripts share."""

import argparse


def parse(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bytes", type=int, default=1 << 28, help="payload")
    parser.add_argument("--memory", choices=["host", "cuda"], default="host")
    parser.add_argument("--gpus", type=int, default=1, help="GPUs to use, 1 or 2")
    parser.add_argument("--tuned", action="store_true", help="settings that are known to be faster")
    parser.add_argument("--threads", type=int, default=8, help="of its own, where tuned")
    return parser.parse_args()
