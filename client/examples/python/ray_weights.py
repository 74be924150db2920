"""Moves a model's weights from one actor of Ray to others, by onecopy, and prints the receipts:

    python ray_weights.py

A daemon runs on every node of the cluster. Actors on GPUs: num_gpus=1, and a model on "cuda".
"""

import ray
import torch

import onecopy.ray

onecopy.ray.register()  # before a class names it


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Trainer:
    """Has the model."""

    def __init__(self):
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))

    @ray.method(tensor_transport="onecopy")
    def weights(self):
        """Not to be changed in place before everybody has them."""
        return self.model.state_dict()


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Worker:
    """Wants it."""

    def load(self, weights):
        return sum(float(each.double().sum()) for each in weights.values())

    def receipts(self):
        return [str(each) for each in onecopy.ray.receipts()]


if __name__ == "__main__":
    ray.init(include_dashboard=False, log_to_driver=False)
    trainer, workers = Trainer.remote(), [Worker.remote() for _ in range(2)]
    ref = trainer.weights.remote()
    sums = ray.get([each.load.remote(ref) for each in workers])
    assert sums[0] == sums[1]
    for worker in workers:
        print("\n".join(ray.get(worker.receipts.remote())))
    mine = ray.get(ref)  # by this process, too
    print(len(mine), "tensors, sum", sums[0])
    del ref, mine
    ray.shutdown()
