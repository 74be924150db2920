// GPU memory between two daemons of one machine by UCX: by cuda_ipc in one copy, and over UCX's own
// sockets. It needs a UCX that has CUDA: the file of its libucp in ONECOPY_TEST_UCX. Where that is
// named, nothing here passes by being refused.
#include <cstdlib>

#include "tests/gpu/plain_copies.h"
#include "tests/gpu/users.h"

namespace onecopy::testing::ucx_daemons_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kBytes = 256 * kMiB;

std::string UcxWithCuda() {
  const char* path = std::getenv("ONECOPY_TEST_UCX");
  return path == nullptr ? std::string() : path;
}

#define NEEDS_UCX_WITH_CUDA() \
  if (UcxWithCuda().empty()) ONECOPY_SKIP("ONECOPY_TEST_UCX names no UCX that has CUDA")

std::string Config(const std::string& more) {
  return "[libraries]\nucx = \"" + UcxWithCuda() + "\"\n[cuda]\nallocation = \"legacy\"\n" + more;
}

struct UcxPair {
  explicit UcxPair(const std::string& more)
      : west("west", {.config = Config(more)}),
        east("east", {.peers = {west.AsPeer()}, .config = Config(more)}) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
    Create(east, "a", "cuda:0", kBytes);
    Create(west, "b", "cuda:1", kBytes);
    east.Do({"cp", "-", "a"}, Payload(kBytes, 3));
  }
  Node west;
  Node east;
};

// The words of UCX for the gets of a transfer, all of whose bytes they must account for.
std::string WordsOf(const Json& receipt) {
  std::string words;
  uint64_t bytes = 0;
  for (const auto& [name, value] : receipt.at("evidence").items()) {
    if (name.rfind("ucx get: ", 0) != 0) continue;
    words += name.substr(9) + ";";
    bytes += std::stoull(value.get<std::string>());
  }
  CHECK(bytes == receipt.at("bytes").get<uint64_t>());
  return words;
}

bool Arrived(const Node& west) {
  const CommandResult read =
      RunCommand("onecopy", {"--run-dir", west.run_dir(), "--quiet", "cp", "b", "-"});
  return read.exit_status == 0 && read.out == Payload(kBytes, 3);
}

}  // namespace

TEST_CASE("ucx moves GPU memory between two daemons in one copy, by cuda_ipc") {
  ONECOPY_NEEDS_GPUS(2);
  NEEDS_UCX_WITH_CUDA();
  UcxPair pair("");
  PlainCopies plain(kBytes);
  const std::vector<std::string> command = {"cp",  "a",      "west:b",      "--link",
                                            "ucx", "--path", "peer-direct", "--checksum"};
  const Json receipt = pair.east.Do(command);
  CheckPath(receipt, "peer-direct", 1);
  CHECK(receipt.at("link") == "ucx");
  CHECK(receipt.at("checksum").at("verified") == true);
  CHECK(receipt.at("steps")[0].at("by") == "copy-engine");
  CHECK(WordsOf(receipt).find("zero-copy cuda_ipc/cuda") != std::string::npos);
  CHECK(Arrived(pair.west));
  const Ratio ratio =
      Compare(pair.east, command, kBytes, "peer-direct", 7, [&] { return plain.Peer(kBytes); });
  std::printf("ucx by cuda_ipc: %.1f of %.1f GB/s, %.3f\n", ratio.ours_gb, ratio.plain_gb,
              ratio.value());
  CHECK(ratio.value() >= 0.7);
}

TEST_CASE("ucx moves GPU memory between two daemons over its own sockets, five copies") {
  ONECOPY_NEEDS_GPUS(2);
  NEEDS_UCX_WITH_CUDA();
  UcxPair pair("[ucx]\ntransports = [\"tcp\", \"cuda_copy\", \"self\"]\n");
  const Json receipt = pair.east.Do({"cp", "a", "west:b", "--link", "ucx", "--checksum"});
  CheckPath(receipt, "tcp-staged", 5);
  CHECK(receipt.at("link") == "ucx");
  CHECK(receipt.at("checksum").at("verified") == true);
  CHECK(receipt.at("steps")[0].at("by") == "copy-engine");
  CHECK(receipt.at("steps")[4].at("by") == "copy-engine");
  CHECK(WordsOf(receipt).find("tcp/") != std::string::npos);
  CHECK(Arrived(pair.west));
  // It is known to be slower than the link tcp, and so not taken by itself.
  const Json own = pair.east.Do({"cp", "a", "west:b", "--path", "tcp-staged"});
  CHECK(own.at("link") == "tcp");
  const double slower =
      own.at("bytes_per_second").get<double>() / receipt.at("bytes_per_second").get<double>();
  std::printf("ucx over sockets: %.2f GB/s, our own %.1f times as fast\n",
              receipt.at("bytes_per_second").get<double>() / 1e9, slower);
  CHECK(slower > 1);
}

}  // namespace onecopy::testing::ucx_daemons_test
