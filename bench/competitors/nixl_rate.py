"""One sample of NIXL: writes a payload from one process to another by its backend UCX, over TCP on loopback.

Prints one line: rate BYTES_PER_SECOND verified 0|1
"""

import os

import options
import target


def make_agent(name, chosen):
    from nixl._api import nixl_agent, nixl_agent_config

    if chosen.tuned:
        return nixl_agent(name, nixl_agent_config(enable_prog_thread=False, num_threads=chosen.threads))
    return nixl_agent(name, nixl_agent_config())


def register(agent, place, chosen):
    kind = "DRAM" if chosen.memory == "host" else "VRAM"
    agent.register_memory([(place.address, place.size, place.device, "")], kind)
    return agent.get_xfer_descs([(place.address, place.size, place.device)], kind)


def serve(pipe, chosen):
    import memory

    agent = make_agent("target", chosen)
    place = memory.allocate(chosen.memory, chosen.bytes, chosen.gpus - 1)
    descriptors = register(agent, place, chosen)
    pipe.send((agent.get_agent_metadata(), agent.get_serialized_descs(descriptors)))
    target.answer(pipe, place, agent.get_new_notifs)  # which makes progress where no thread of its own does


def main():
    chosen = options.parse(__doc__)
    os.environ.setdefault("NIXL_LOG_LEVEL", "ERROR")
    os.environ["UCX_TLS"] = "tcp" if chosen.memory == "host" else "tcp,cuda_copy"
    if chosen.tuned:
        os.environ["UCX_TCP_TX_SEG_SIZE"] = os.environ["UCX_TCP_RX_SEG_SIZE"] = "4m"
    import memory

    other = target.Target(serve, chosen)
    agent = make_agent("initiator", chosen)
    source = memory.allocate(chosen.memory, chosen.bytes, 0)
    mine = register(agent, source, chosen)
    metadata, descriptors = other.hear()
    peer = agent.add_remote_agent(metadata)
    handle = agent.initialize_xfer("WRITE", mine, agent.deserialize_descs(descriptors), peer)

    def move():
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        if state != "DONE":
            raise RuntimeError(f"the transfer ended as {state}")

    target.measure(other, source, move)


if __name__ == "__main__":
    main()
