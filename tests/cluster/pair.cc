#include "tests/cluster/pair.h"

#include <stdexcept>
#include <utility>

#include "tests/support/memory.h"

namespace onecopy::testing {
namespace {

// State of a process as the kernel has it: 'T' once every thread has stopped.
char StateOf(pid_t pid) {
  const std::string text = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  return text.at(text.rfind(')') + 2);
}

}  // namespace

Pair::Pair(const std::string& config)
    : west("west", {.config = config}), east("east", {.peers = {west.AsPeer()}, .config = config}) {
  east.WaitForPeer("west");
  west.WaitForPeer("east");
}

ThreeNodes::ThreeNodes() {
  for (const char* peer : {"east", "west"}) north.WaitForPeer(peer);
  for (const Node* node : {&east, &west}) node->WaitForPeer("north");
}

void Must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

HostBuffer Filled(Client& client, const std::string& name, uint64_t bytes, uint64_t seed) {
  HostBuffer buffer = Must(client.CreateHostBuffer(name, bytes));
  Fill(buffer.data(), bytes, seed);
  return buffer;
}

std::string Contents(const Node& node, const std::string& endpoint) {
  const CommandResult read =
      RunCommand("onecopy", {"--run-dir", node.run_dir(), "cp", endpoint, "-"});
  if (read.exit_status != 0) throw std::runtime_error(read.err);
  return read.out;
}

bool IsPayload(const std::byte* data, uint64_t bytes, uint64_t seed, uint64_t offset) {
  return FirstWrong(data, bytes, seed, offset) == bytes;
}

TransferInfo SeeRunning(Client& client, const TransferId& id) {
  TransferInfo transfer;
  WaitUntil("transfer " + id.str() + " runs", [&] {
    transfer = Must(client.GetTransfer(id));
    if (IsFinal(transfer.state)) {
      throw std::runtime_error("ended already: " + id.str() + ": " + transfer.error.ToString());
    }
    return transfer.state == TransferState::kRunning;
  });
  return transfer;
}

TransferInfo StartAndSeeRunning(Client& client, const TransferRequest& request) {
  return SeeRunning(client, Must(client.StartTransfer(request)).id);
}

Frozen::Frozen(Node& node) : node_(&node) {
  const pid_t pid = node.process().pid();
  node.process().Signal(SIGSTOP);
  WaitUntil(node.name() + " has stopped", [pid] { return StateOf(pid) == 'T'; });
}

void Frozen::Thaw() {
  if (node_ != nullptr) std::exchange(node_, nullptr)->process().Signal(SIGCONT);
}

}  // namespace onecopy::testing
