"""Trains a small model whose memory is registered with the daemon already, and moves its parameters to a buffer:

    python mem_pool.py west:weights           needs torch, and a GPU

An ordinary training loop within torch.cuda.use_mem_pool: no tensor of it is registered, and each is found by its address.
"""

import sys

import torch

import onecopy
import onecopy.torch


def train() -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data, wanted = torch.randn(256, 1024, device="cuda"), torch.randint(10, (256,), device="cuda")
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(data), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss:", float(loss))  # and everything has been computed
    return model


def move(target: str) -> None:
    node = onecopy.connect()
    pool = onecopy.torch.pool(node)
    known = len(node.buffers())
    with torch.cuda.use_mem_pool(pool), torch.autograd.set_multithreading_enabled(False):
        state = list(train().state_dict().values())
    known += len(onecopy.torch.device_pool().buffers)
    offsets = [sum(each.nbytes for each in state[:number]) for number in range(len(state))]
    done = node.transfer(state, [f"{target}@{at}+{each.nbytes}" for at, each in zip(offsets, state, strict=True)])
    print(done.receipt)
    print(f"{len(state)} tensors, {len(node.buffers()) - known} registrations")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: mem_pool.py NODE:BUFFER")
    try:
        move(sys.argv[1])
    except onecopy.Error as failure:
        sys.exit(str(failure))
