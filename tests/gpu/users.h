// Real daemons on a GPU machine, and users' programs there.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "tests/gpu/real_gpu.h"
#include "tests/support/node.h"

namespace onecopy::testing {

// `config` is west's.
struct Pair {
  Node west;
  Node east{"east", {.peers = {west.AsPeer()}}};
  explicit Pair(const std::string& config = {}) : west("west", {.config = config}) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
  }
};

inline void Create(const Node& node, const std::string& name, const std::string& memory,
                   uint64_t bytes) {
  node.Do({"buffer", "create", name, "--size", std::to_string(bytes), "--memory", memory});
}

inline void CheckPath(const Json& receipt, const std::string& path, size_t copies) {
  INFO(receipt.dump(2));
  CHECK(receipt.at("state") == "SUCCEEDED");
  CHECK(receipt.at("path") == path);
  CHECK(receipt.at("copies") == copies);
  CHECK(receipt.at("steps").size() == copies);
}

// Memory of a user's program, registered under `name`: see user.cu.
inline std::unique_ptr<Process> StartUser(const Node& node, const std::string& name,
                                          const std::string& kind, int device, uint64_t bytes,
                                          uint64_t offset, uint64_t seed) {
  auto user = std::make_unique<Process>(ProcessOptions{
      .program = (ProgramFolder() / "support/cuda_user").string(),
      .arguments = {node.run_dir(), name, kind, std::to_string(device), std::to_string(bytes),
                    std::to_string(offset), std::to_string(seed)},
      .input_file = ""});
  const std::string said = user->ReadLine();
  if (said != "registered\n") throw std::runtime_error("cuda_user: " + said);
  return user;
}

inline std::string Check(Process& user, uint64_t seed) {
  user.Write("check " + std::to_string(seed) + "\n");
  return user.ReadLine();
}

}  // namespace onecopy::testing
