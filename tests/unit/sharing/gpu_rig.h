// Two daemons of one host with GPUs that are none.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/engine_cluster.h"
#include "tests/support/memory.h"
#include "tests/unit/sharing/fake_gpu.h"

namespace onecopy::testing {

using namespace engine;

inline constexpr uint64_t kGpuBytes = 300'007;

// Alice's buffer "a" on east, and on west "b" of Bob's, of GPU memory.
struct GpuRig {
  explicit GpuRig(const std::function<void(const std::string&, NodePlan&)>& change = {})
      : cluster({"east", "west"},
                [this, change](const std::string& name, NodePlan& plan) {
                  if (controls[name] == nullptr) controls[name] = std::make_shared<FakeGpus>();
                  if (change) change(name, plan);
                  plan.memories.push_back(MakeFakeGpuMemory(name, controls[name]));
                }),
        alice(cluster["east"].Attach()),
        bob(cluster["west"].Attach()) {
    Create("east", alice, "a", "cuda:0");
    Create("west", bob, "b", "cuda:1");
    Put("east", alice, "a", 1);
  }

  void Create(const std::string& node, const Principal& who, const std::string& name,
              const std::string& memory, uint64_t bytes = kGpuBytes) {
    const auto made = cluster[node].Ask<BufferInfo>([&](ClientApi& api, auto reply) {
      CreateBufferRequest request;
      request.name = name;
      request.bytes = bytes;
      request.memory = memory;
      api.CreateBuffer(who, request, std::move(reply));
    });
    REQUIRE_OK(made);
  }
  Status Remove(const std::string& node, const Principal& who, const std::string& name,
                bool force = false) {
    return cluster[node]
        .Ask<bool>([&](ClientApi& api, auto reply) {
          api.DeleteBuffer(who, "", name, force,
                           [reply = std::move(reply)](const Status& status) mutable {
                             if (!status.ok()) return reply(status);
                             reply(true);
                           });
        })
        .status();
  }
  // Known bytes into a buffer of that node, and whether they are there.
  void Put(const std::string& node, const Principal& who, const std::string& name, uint64_t seed) {
    const auto plain = Plain(node, who);
    Fill(plain.data, kGpuBytes, seed);
    REQUIRE_OK(cluster[node].Copy(who, Request(":" + plain.info.name, ":" + name)));
  }
  bool Holds(const std::string& node, const Principal& who, const std::string& name,
             uint64_t seed) {
    const auto plain = Plain(node, who);
    REQUIRE_OK(cluster[node].Copy(who, Request(":" + name, ":" + plain.info.name)));
    return FirstWrong(plain.data, kGpuBytes, seed) == kGpuBytes;
  }

  TransferInfo Copy(TransferRequest request = Request("east:a", "west:b")) {
    auto copied = cluster["west"].Copy(bob, std::move(request));
    REQUIRE_OK(copied);
    return *copied;
  }

  std::map<std::string, std::shared_ptr<FakeGpus>> controls;
  EngineCluster cluster;
  Principal alice;
  Principal bob;

 private:
  EngineNode::Registered Plain(const std::string& node, const Principal& who) {
    auto plain = cluster[node].Register(who, "plain" + std::to_string(next_++), kGpuBytes);
    REQUIRE_OK(plain);
    return *plain;
  }
  int next_ = 0;
};

inline void AwaitUnmapped(const FakeGpus& gpus) {
  while (gpus.imported() > 0) std::this_thread::yield();
}

}  // namespace onecopy::testing
