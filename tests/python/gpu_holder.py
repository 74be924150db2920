"""A process that holds a tensor on a GPU under a name, for test_gpu.py: told by lines on standard input, answers by lines.

    python gpu_holder.py RUN_DIR NAME BYTES DEVICE

After `ready`, each `fill VALUE` answers `filled`, each `sum` the sum of its bytes, and the end of the input ends it.
"""

import sys

import torch

import onecopy


def main():
    run_dir, name, size, device = sys.argv[1:]
    held = torch.zeros(int(size), dtype=torch.uint8, device=device)
    torch.cuda.synchronize(device)
    node = onecopy.connect(run_dir)
    node.register(held, name)
    print("ready", flush=True)
    for line in sys.stdin:
        word, *values = line.split()
        if word == "fill":
            held.fill_(int(values[0]))
            torch.cuda.synchronize(device)
            print("filled", flush=True)
        else:
            print(int(held.sum(dtype=torch.int64)), flush=True)


if __name__ == "__main__":
    main()
