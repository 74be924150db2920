// GPU memory between two daemons of this host, with all of their code and a driver that has no GPU.
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "transport/digest/tree.h"

namespace shared_gpu_test {
namespace {

using namespace onecopy::testing;

constexpr uint64_t kBytes = 5'000'003;

std::string WithFakeCuda() { return "[libraries]\ncuda = \"" + FakeCudaPath() + "\"\n"; }

struct Gpus : Pair {
  Gpus() : Pair(WithFakeCuda()) {
    Create(east, "a", "cuda:0");
    Create(west, "b", "cuda:1");
    east.Do({"cp", "-", "a"}, Payload(kBytes, 1));
  }
  static void Create(const Node& node, const std::string& name, const std::string& memory) {
    node.Do({"buffer", "create", name, "--size", std::to_string(kBytes), "--memory", memory});
  }
};

void CheckShared(const Json& receipt) {
  INFO(receipt.dump(2));
  CHECK(receipt.at("state") == "SUCCEEDED");
  CHECK(receipt.at("path") == "peer-direct");
  CHECK(receipt.at("copies") == 1);
  CHECK(receipt.at("link") == "");
  CHECK(receipt.at("evidence").at("shared") == "vmm-fd");
}

}  // namespace

TEST_CASE("a daemon copies from another one's GPU memory in place, whoever orders it") {
  Gpus gpus;
  const Json receipt = gpus.east.Do({"cp", "a", "west:b", "--checksum"});
  CheckShared(receipt);
  CHECK(receipt.at("checksum").at("verified") == true);
  CHECK(Contents(gpus.west, "b") == Payload(kBytes, 1));
  gpus.east.Do({"cp", "-", "a"}, Payload(kBytes, 2));
  CheckShared(gpus.west.Do({"cp", "east:a", "b"}));
  CHECK(Contents(gpus.west, "b") == Payload(kBytes, 2));
  // A part, into another place.
  CheckShared(gpus.east.Do({"cp", "a@4097+1000000", "west:b@13"}));
  CHECK(Contents(gpus.west, "b@13+1000000") == Payload(kBytes, 2).substr(4097, 1'000'000));
}

TEST_CASE("a GPU and a processor compute the same checksum of GPU memory") {
  constexpr uint64_t kLong = (uint64_t{18} << 20) + 5;  // leaves, and what is less than one
  const bool by_gpu = GENERATE(true, false);
  std::optional<ScopedEnvironment> without;
  if (!by_gpu) without.emplace("FAKE_CUDA_NO_KERNEL", "1");
  const Pair pair(WithFakeCuda());
  for (const auto& [node, name] : {std::pair(&pair.east, "a"), std::pair(&pair.west, "b")}) {
    node->Do({"buffer", "create", name, "--size", std::to_string(kLong), "--memory", "cuda:0"});
  }
  const std::string payload = Payload(kLong, 3);
  pair.east.Do({"cp", "-", "a"}, payload);
  const std::string whole = onecopy::digest::TreeHexOf(payload.data(), kLong);
  for (const char* path : {"peer-direct", "tcp-staged"}) {
    const Json receipt = pair.east.Do({"cp", "a", "west:b", "--checksum", "--path", path});
    CHECK(receipt.at("path") == path);
    CHECK(receipt.at("checksum").at("value") == whole);
    CHECK(receipt.at("checksum").at("verified") == true);
  }
  CHECK(pair.west.Do({"buffer", "sum", "b", "--tree"}).dump().find(whole) != std::string::npos);
  // A view, whose bytes begin inside the memory.
  pair.east.Do({"buffer", "view", "part", "a@4096+16777216"});
  const Json part = pair.east.Do({"cp", "part", "west:b@0+16777216", "--checksum"});
  CHECK(part.at("checksum").at("value") ==
        onecopy::digest::TreeHexOf(payload.data() + 4096, uint64_t{16} << 20));
  pair.east.Do({"cp", "a", "west:b"});
  // An address that the kernel refuses; and whole leaves only.
  const uint64_t leaves = kLong / onecopy::digest::kLeafBytes * onecopy::digest::kLeafBytes;
  for (const uint64_t begin : {uint64_t{5}, uint64_t{0}}) {
    const std::string range = "@" + std::to_string(begin) + "+" + std::to_string(leaves);
    const Json receipt = pair.east.Do({"cp", "a" + range, "west:b" + range, "--checksum"});
    CHECK(receipt.at("checksum").at("value") ==
          onecopy::digest::TreeHexOf(payload.data() + begin, leaves));
  }
}

TEST_CASE("a client has a daemon copy from another one's GPU memory by its ring") {
  Gpus gpus;
  onecopy::Client west = gpus.west.Connect();
  const auto move = [&](uint64_t offset, std::optional<uint64_t> bytes) {
    const onecopy::TransferRequest request{.source = {"east", "a", offset, bytes},
                                           .destination = {"west", "b", offset, {}}};
    onecopy::TransferInfo last;
    // By gRPC at first, which shows that the copy is one pass.
    for (int i = 0; i < 4; ++i) {
      last = Must(west.RunTransfer(request));
      REQUIRE(last.state == onecopy::TransferState::kSucceeded);
    }
    CHECK(last.receipt.path == "peer-direct");
    return Must(west.GetTransfer(last.id)).receipt.evidence;
  };
  CHECK(move(0, std::nullopt)["submitted"] == "ring");
  CHECK(Contents(gpus.west, "b") == Payload(kBytes, 1));
  auto evidence = move(0, kBytes);
  CHECK(evidence["submitted"] == "ring");
  CHECK(evidence["shared"] == "vmm-fd");
  CHECK(Contents(gpus.west, "b") == Payload(kBytes, 1));
  gpus.east.Do({"cp", "-", "a"}, Payload(kBytes, 2));
  CHECK(move(4097, 1000)["submitted"] == "ring");
  CHECK(Contents(gpus.west, "b@4097+1000") == Payload(kBytes, 2).substr(4097, 1000));
  CHECK(Contents(gpus.west, "b@0+4097") == Payload(kBytes, 1).substr(0, 4097));
  // The route holds nothing up, and does not outlive the buffer.
  gpus.east.Do({"buffer", "rm", "a"});
  CHECK(gpus.west.Run({"node", "release", "cuda:0"}).exit_status == 0);
  const auto gone =
      west.RunTransfer({.source = {"east", "a", 0, kBytes}, .destination = {"west", "b", 0, {}}});
  CHECK(gone.status().reason() == "BUFFER_NOT_FOUND");
}

TEST_CASE("a GPU is let go of when the other daemon's buffer goes") {
  Gpus gpus;
  CheckShared(gpus.east.Do({"cp", "a", "west:b"}));
  CHECK(gpus.west.Run({"node", "release", "cuda:0"}).reason() == "DEVICE_IN_USE");
  gpus.east.Do({"buffer", "rm", "a"});
  CHECK(gpus.west.Run({"node", "release", "cuda:0"}).exit_status == 0);
}

TEST_CASE("a GPU is let go of when the other daemon is killed") {
  Gpus gpus;
  CheckShared(gpus.east.Do({"cp", "a", "west:b"}));
  gpus.east.process().Signal(SIGKILL);
  gpus.east.process().Wait();
  WaitUntil("west has let go", [&] {
    return gpus.west.Run({"node", "release", "cuda:0"}).exit_status == 0;
  });
  CHECK(Contents(gpus.west, "b") == Payload(kBytes, 1));
}

TEST_CASE("who asks for another path between two daemons gets it, and one GPU reaches itself") {
  Gpus gpus;
  const Json staged = gpus.east.Do({"cp", "a", "west:b", "--path", "tcp-staged", "--checksum"});
  CHECK(staged.at("path") == "tcp-staged");
  CHECK(staged.at("copies") == 5);
  CHECK(Contents(gpus.west, "b") == Payload(kBytes, 1));
  // From a GPU to itself, too, it is one copy.
  Gpus::Create(gpus.west, "same", "cuda:0");
  CheckShared(gpus.east.Do({"cp", "a", "west:same", "--checksum"}));
  CHECK(Contents(gpus.west, "same") == Payload(kBytes, 1));
}
}  // namespace shared_gpu_test
