"""Moves a state dict of torch from one node to another, all tensors by one transfer. Each in a terminal:

    python send_state_dict.py receive         prints the name of its node, and waits
    python send_state_dict.py send NODE       on another node

Both make the same model here, so that the receiver has room for each tensor: memory that its daemon writes in place, under
names that the sender knows. On a GPU, use register(tensor, name) instead of empty(…).
"""

import sys

import torch

import onecopy


def model() -> torch.nn.Module:
    """Two layers."""
    return torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))


def receive(node: onecopy.Node) -> None:
    """Waits for a line from the keyboard, which says that the weights have arrived."""
    wanted = model()
    room = {name: torch.from_dlpack(node.empty(tuple(each.shape), each.dtype, f"model.{name}"))
            for name, each in wanted.state_dict().items()}
    print(node.name, flush=True)
    sys.stdin.readline()
    wanted.load_state_dict(room, assign=True)  # the model's own from now on, without a copy
    print("sum of what arrived:", sum(float(each.double().sum()) for each in wanted.state_dict().values()))


def send(node: onecopy.Node, other: str) -> None:
    torch.manual_seed(1)
    state = model().state_dict()
    done = node.transfer(list(state.values()), [f"{other}:model.{name}" for name in state], checksum=True)
    print(done.receipt)
    print("sum of what was sent:", sum(float(each.double().sum()) for each in state.values()))


if __name__ == "__main__":
    try:
        here = onecopy.connect()
        if sys.argv[1:] == ["receive"]:
            receive(here)
        elif len(sys.argv) == 3 and sys.argv[1] == "send":
            send(here, sys.argv[2])
        else:
            sys.exit("usage: send_state_dict.py receive | send NODE")
    except onecopy.Error as failure:
        sys.exit(str(failure))
