// Real daemons that move real GPU memory: between two of them, inside one, and memory of users'
// programs.
#include <signal.h>

#include <fstream>

#include "tests/gpu/users.h"
#include "tests/support/temp_folder.h"
#include "transport/os/machine/machine.h"

namespace onecopy::testing::daemons_test {
namespace {

constexpr uint64_t kBytes = (uint64_t{64} << 20) + 3;

void Create(const Node& node, const std::string& name, const std::string& memory) {
  Create(node, name, memory, kBytes);
}

// A buffer with known bytes.
void CreateFilled(const Node& node, const std::string& name, const std::string& memory,
                  uint64_t seed, uint64_t bytes = kBytes) {
  Create(node, name, memory, bytes);
  node.Do({"cp", "-", name}, Payload(bytes, seed));
}

bool Holds(const Node& node, const std::string& name, uint64_t seed, uint64_t bytes = kBytes) {
  const CommandResult read =
      RunCommand("onecopy", {"--run-dir", node.run_dir(), "--quiet", "cp", name, "-"});
  return read.exit_status == 0 && read.out == Payload(bytes, seed);
}

std::string ReasonAgainst(const Json& receipt, const std::string& path) {
  for (const Json& refusal : receipt.at("refused")) {
    if (refusal.at("path") == path) return refusal.at("reason");
  }
  return {};
}

// A daemon that is built without nvcc gathers and scatters by copy engines.
std::string WhoScatters(const Node& node) {
  const Json shown = node.Do({"node", "show"});
  for (const Json& memory : shown.at("memories")) {
    if (memory.value("attributes", Json::object()).contains("kernels")) return "copy-engine";
  }
  return "gpu-kernel";
}

}  // namespace

TEST_CASE("from a GPU of one daemon into a file that another exports, and back") {
  ONECOPY_NEEDS_GPUS(1);
  const TempFolder data;
  Pair pair("[exports.data]\npath = \"" + data.path().string() +
            "\"\nread = \"*@east\"\nwrite = \"*@east\"\n");
  CreateFilled(pair.east, "a", "cuda:0", 5);
  Create(pair.east, "b", "cuda:0");
  const std::string file = "west:" + (data / "out");
  const Json out = pair.east.Do({"cp", "a", file, "--checksum", "--sync"});
  CHECK(out.at("path") == "storage-bounce+tcp-staged");
  CHECK(out.at("steps").front().at("by") == "copy-engine");
  CHECK(out.at("steps").back().at("to") == "file");
  CHECK(out.at("checksum").at("verified") == true);
  CHECK(ReadFile(data / "out") == Payload(kBytes, 5));
  const Json in = pair.east.Do({"cp", file, "b", "--checksum"});
  CHECK(in.at("path") == "storage-bounce+tcp-staged");
  CHECK(Holds(pair.east, "b", 5));
}

TEST_CASE("from a GPU of one daemon to a GPU of another, five copies over tcp") {
  ONECOPY_NEEDS_GPUS(1);
  const std::string other = WhyFewerGpus(2).empty() ? "cuda:1" : "cuda:0";
  Pair pair;
  CreateFilled(pair.east, "a", "cuda:0", 1);
  Create(pair.west, "b", other);
  const Json receipt = pair.east.Do({"cp", "a", "west:b", "--path", "tcp-staged", "--checksum"});
  CheckPath(receipt, "tcp-staged", 5);
  CHECK(receipt.at("checksum").at("verified") == true);
  const Json& steps = receipt.at("steps");
  CHECK(steps[0].at("from").get<std::string>().rfind("GPU-", 0) == 0);
  CHECK(steps[0].at("by") == "copy-engine");
  CHECK(steps[4].at("to").get<std::string>().rfind("GPU-", 0) == 0);
  CHECK(steps[4].at("by") == "copy-engine");
  CHECK(ReasonAgainst(receipt, "rdma-direct") == "NO_RDMA_DEVICE");
  CHECK(ReasonAgainst(receipt, "peer-direct") == "NOT_REQUESTED");
  CHECK(Holds(pair.west, "b", 1));
}

TEST_CASE("a file and a GPU's memory meet in pinned slots, both ways") {
  ONECOPY_NEEDS_GPUS(1);
  Node east("east");
  TempFolder folder;
  std::ofstream(folder / "in", std::ios::binary) << Payload(kBytes, 31);
  Create(east, "a", "cuda:0");
  const Json in = east.Do({"cp", folder / "in", "a", "--checksum"});
  const Json& steps = in.at("steps");
  CheckPath(in, "storage-bounce", steps.size());
  CHECK(in.at("checksum").at("verified") == true);
  CHECK((steps.size() == 2 || steps.size() == 3));  // the page cache, where it was in between
  CHECK(steps.front().at("from") == "file");
  CHECK(steps.back().at("from") == "pinned");
  CHECK(steps.back().at("by") == "copy-engine");
  // Real GPUDirect Storage is tests/gpu/storage's business: here the daemon says why it is not
  // taken.
  const std::string why = ReasonAgainst(in, "storage-direct");
  CHECK((why == "NO_CUFILE" || why == "COMPATIBILITY_MODE" || why == "NO_NVIDIA_FS"));
  CHECK(Holds(east, "a", 31));
  const Json out = east.Do({"cp", "a", folder / "out", "--checksum"});
  CHECK(out.at("path") == "storage-bounce");
  CHECK(out.at("steps").front().at("by") == "copy-engine");
  std::ifstream read(folder / "out", std::ios::binary);
  CHECK(std::string(std::istreambuf_iterator<char>(read), {}) == Payload(kBytes, 31));
}

TEST_CASE("GPU memory of one daemon is copied from by another of its host, in one copy") {
  ONECOPY_NEEDS_GPUS(1);
  const std::string other = WhyFewerGpus(2).empty() ? "cuda:1" : "cuda:0";
  Pair pair;
  CreateFilled(pair.east, "a", "cuda:0", 21);
  Create(pair.west, "b", other);
  for (const uint64_t seed : {21, 22}) {
    if (seed == 22) pair.east.Do({"cp", "-", "a"}, Payload(kBytes, seed));
    const Json receipt = pair.east.Do({"cp", "a", "west:b", "--checksum"});
    CheckPath(receipt, "peer-direct", 1);
    CHECK(receipt.at("checksum").at("verified") == true);
    CHECK(receipt.at("steps")[0].at("by") == "copy-engine");
    CHECK(receipt.at("evidence").at("shared") == "vmm-fd");
    CHECK(Holds(pair.west, "b", seed));
  }
  // Back, and with what is left of an earlier buffer of that name out of the way.
  pair.east.Do({"buffer", "rm", "a"});
  Create(pair.east, "a", "cuda:0");
  CheckPath(pair.east.Do({"cp", "west:b", "a", "--checksum"}), "peer-direct", 1);
  CHECK(Holds(pair.east, "a", 22));
}

TEST_CASE("ranges of GPU memory are gathered and scattered by the kernel, on each path of GPUs") {
  ONECOPY_NEEDS_GPUS(1);
  const std::string other = WhyFewerGpus(2).empty() ? "cuda:1" : "cuda:0";
  Pair pair;
  const std::string by = WhoScatters(pair.east);
  CreateFilled(pair.east, "a", "cuda:0", 31);
  Create(pair.east, "c", other);
  Create(pair.west, "b", other);
  // Blocks of odd lengths at odd places in the opposite order, then a column into another stride.
  const TempFolder folder;
  const std::string list = folder / "ranges.jsonl";
  const std::string source = Payload(kBytes, 31);
  std::string expected = Payload(kBytes, 32);
  {
    std::ofstream file(list);
    const auto add = [&](const Json& from, const Json& to) {
      file << Json({{"source", from}, {"destination", to}}).dump() << '\n';
    };
    for (uint64_t i = 0; i < 500; ++i) {
      const uint64_t from = i * 65'551 + 1;
      const uint64_t to = (499 - i) * 65'549 + 3;
      add({{"offset", from}, {"bytes", 65'537}}, {{"offset", to}, {"bytes", 65'537}});
      expected.replace(to, 65'537, source, from, 65'537);
    }
    const uint64_t at = uint64_t{40} << 20;
    add({{"offset", at + 8}, {"bytes", 4}, {"stride", 32}, {"count", 500'000}},
        {{"offset", at}, {"bytes", 4}, {"stride", 12}, {"count", 500'000}});
    for (uint64_t i = 0; i < 500'000; ++i)
      expected.replace(at + 12 * i, 4, source, at + 8 + 32 * i, 4);
  }
  struct Case {
    std::string to;
    std::string path;
    size_t copies;
  };
  for (const Case& one : {Case{"c", other == "cuda:1" ? "peer-direct" : "local", 1},
                          {"c", "peer-bounce", 2},
                          {"west:b", "peer-direct", 1},
                          {"west:b", "tcp-staged", 5}}) {
    INFO(one.to << " by " << one.path);
    const Node& node = one.to == "c" ? pair.east : pair.west;
    const std::string name = one.to == "c" ? "c" : "b";
    node.Do({"cp", "-", name}, Payload(kBytes, 32));
    const Json receipt =
        pair.east.Do({"cp", "a", one.to, "--ranges", list, "--path", one.path, "--checksum"});
    CheckPath(receipt, one.path, one.copies);
    CHECK(receipt.at("ranges") == 501);
    CHECK(receipt.at("checksum").at("verified") == true);
    // The last chunk may be one range, which is an engine's.
    CHECK(receipt.at("steps").front().at("by").get<std::string>().starts_with(by));
    const CommandResult read =
        RunCommand("onecopy", {"--run-dir", node.run_dir(), "--quiet", "cp", name, "-"});
    CHECK(read.out == expected);
  }
}

TEST_CASE("a daemon lets go of another one's GPU memory soon after it was used") {
  ONECOPY_NEEDS_GPUS(2);
  Pair pair;
  CreateFilled(pair.east, "a", "cuda:0", 23);
  Create(pair.west, "b", "cuda:1");
  CheckPath(pair.east.Do({"cp", "a", "west:b"}), "peer-direct", 1);
  // Its mapping holds the source's GPU open there.
  CHECK(pair.west.Run({"node", "release", "cuda:0"}).reason() == "DEVICE_IN_USE");
  pair.east.Do({"buffer", "rm", "a"});
  CHECK(pair.west.Run({"node", "release", "cuda:0"}).exit_status == 0);
}

TEST_CASE("what is missing for the one-copy path over the network is named") {
  ONECOPY_NEEDS_GPUS(1);
  if (!os::RdmaDevices().empty()) ONECOPY_SKIP("there is an RDMA device");
  Pair pair;
  Create(pair.east, "a", "cuda:0");
  Create(pair.west, "b", "cuda:0");
  const Json plan = pair.east.Do({"explain", "a", "west:b"});
  INFO(plan.dump(2));
  CHECK(ReasonAgainst(plan, "rdma-direct") == "NO_RDMA_DEVICE");
  const CommandResult doctor = pair.east.Run({"doctor"});
  INFO(doctor.out);
  CHECK(doctor.exit_status == 7);
  bool named = false;
  for (const Json& finding : doctor.json.at("findings")) {
    if (finding.at("code") != "NO_RDMA_DEVICE") continue;
    named = true;
    CHECK_FALSE(finding.at("evidence").get<std::string>().empty());
    CHECK_FALSE(finding.at("remedy").get<std::string>().empty());
  }
  CHECK(named);
}

TEST_CASE("between a GPU and host memory of two daemons, four copies over tcp") {
  ONECOPY_NEEDS_GPUS(1);
  Pair pair;
  CreateFilled(pair.east, "a", "cuda:0", 2);
  Create(pair.west, "b", "host");
  Create(pair.east, "c", "cuda:0");
  CheckPath(pair.east.Do({"cp", "a", "west:b", "--checksum"}), "tcp-bounce", 4);
  CheckPath(pair.east.Do({"cp", "west:b", "c", "--checksum"}), "tcp-bounce", 4);
  CHECK(Holds(pair.east, "c", 2));
}

TEST_CASE("inside a daemon GPUs reach each other directly, and host memory in one copy") {
  ONECOPY_NEEDS_GPUS(2);
  Node east("east");
  CreateFilled(east, "a", "cuda:0", 3);
  Create(east, "b", "cuda:1");
  Create(east, "c", "cuda:0");
  Create(east, "h", "host");
  CheckPath(east.Do({"cp", "a", "b", "--checksum"}), "peer-direct", 1);
  CHECK(Holds(east, "b", 3));
  CheckPath(east.Do({"cp", "a", "b", "--path", "peer-bounce", "--checksum"}), "peer-bounce", 2);
  CheckPath(east.Do({"cp", "b", "c", "--checksum"}), "peer-direct", 1);
  CheckPath(east.Do({"cp", "c", "h", "--checksum"}), "local", 1);
  CheckPath(east.Do({"cp", "h@1+4097", "b@4095", "--checksum"}), "local", 1);
  CHECK(Holds(east, "h", 3));
}

TEST_CASE("odd places and lengths of GPU memory arrive, and nothing beside them changes") {
  ONECOPY_NEEDS_GPUS(1);
  const std::string other = WhyFewerGpus(2).empty() ? "cuda:1" : "cuda:0";
  Pair pair;
  constexpr uint64_t kSmall = 3'000'001;
  CreateFilled(pair.east, "a", "cuda:0", 4, kSmall);
  CreateFilled(pair.west, "b", other, 5, kSmall);
  std::string wanted = Payload(kSmall, 5);
  const std::string payload = Payload(kSmall, 4);
  for (const auto& [from, bytes, to] : std::vector<std::tuple<uint64_t, uint64_t, uint64_t>>{
           {0, 0, 0}, {1, 1, 7}, {3, 4097, 5}, {1'048'575, 1'048'577, 1'500'001}}) {
    pair.east.Do({"cp", "a@" + std::to_string(from) + "+" + std::to_string(bytes),
                  "west:b@" + std::to_string(to), "--checksum"});
    wanted.replace(to, bytes, payload, from, bytes);
  }
  CHECK(RunCommand("onecopy", {"--run-dir", pair.west.run_dir(), "--quiet", "cp", "b", "-"}).out ==
        wanted);
}

TEST_CASE("memory of a user's program is moved from and to, wherever it lies in its allocation") {
  ONECOPY_NEEDS_GPUS(1);
  const int other = WhyFewerGpus(2).empty() ? 1 : 0;
  Pair pair;
  for (const std::string kind : {"malloc", "vmm"}) {
    INFO(kind);
    const auto source = StartUser(pair.east, "mine-" + kind, kind, 0, 5'000'003, 4097, 6);
    const auto far = StartUser(pair.west, "far-" + kind, kind, other, 5'000'003, 513, 7);
    const auto near = StartUser(pair.east, "near-" + kind, kind, other, 5'000'003, 1, 8);
    CheckPath(pair.east.Do(
                  {"cp", "mine-" + kind, "west:far-" + kind, "--path", "tcp-staged", "--checksum"}),
              "tcp-staged", 5);
    CHECK(Check(*far, 6) == "right\n");
    const auto again = StartUser(pair.west, "again-" + kind, kind, other, 5'000'003, 77, 7);
    const Json shared = pair.east.Do({"cp", "mine-" + kind, "west:again-" + kind, "--checksum"});
    CheckPath(shared, "peer-direct", 1);
    CHECK(shared.at("evidence").at("shared") == (kind == "vmm" ? "vmm-fd" : "ipc-handle"));
    CHECK(Check(*again, 6) == "right\n");
    CheckPath(pair.east.Do({"cp", "mine-" + kind, "near-" + kind, "--checksum"}),
              other == 1 ? "peer-direct" : "local", 1);
    CHECK(Check(*near, 6) == "right\n");
    CHECK(Check(*source, 6) == "right\n");
  }
}

TEST_CASE("memory in two allocations of cuMemCreate is one buffer, read and written in place") {
  ONECOPY_NEEDS_GPUS(1);
  Node east("east");
  constexpr uint64_t kBytes = 50'000'003;
  const auto source = StartUser(east, "source", "two", 0, kBytes, 4096, 5);
  const auto target = StartUser(east, "target", "two", 0, kBytes, 8191, 6);
  CheckPath(east.Do({"cp", "source", "target", "--checksum"}), "local", 1);
  CHECK(Check(*target, 5) == "right\n");
}

TEST_CASE("memory that cannot be shared is copied by its process, and the receipt says so") {
  ONECOPY_NEEDS_GPUS(1);
  Pair pair;
  constexpr uint64_t kBytes = 50'000'003;
  Create(pair.east, "h", "host", kBytes);
  for (const std::string kind : {"async", "pool", "unshared"}) {
    INFO(kind);
    const auto source = StartUser(pair.east, "source-" + kind, kind, 0, kBytes, 1, 5);
    const auto target = StartUser(pair.east, "target-" + kind, kind, 0, kBytes, 3, 6);
    const auto far = StartUser(pair.west, "far-" + kind, kind, 0, kBytes, 0, 6);
    const Json out = pair.east.Do({"cp", "source-" + kind, "h", "--checksum"});
    CheckPath(out, "peer-bounce", 2);
    CHECK(out.at("steps").at(0).at("from") == "process-gpu");
    CHECK(out.at("steps").at(0).at("by") == "client");
    CHECK(out.dump().find("cudaMalloc") != std::string::npos);  // the remedy
    CheckPath(pair.east.Do({"cp", "h", "target-" + kind, "--checksum"}), "peer-bounce", 2);
    CHECK(Check(*target, 5) == "right\n");
    CheckPath(pair.east.Do({"cp", "source-" + kind, "west:far-" + kind, "--checksum"}),
              "tcp-staged", 5);
    CHECK(Check(*far, 5) == "right\n");
  }
}

TEST_CASE("when a user's program ends its GPU memory goes, and the daemon lets go of the GPU") {
  ONECOPY_NEEDS_GPUS(1);
  Node east("east");
  Create(east, "h", "host", 5'000'003);
  for (const bool killed : {false, true}) {
    const auto user = StartUser(east, "mine", "malloc", 0, 5'000'003, 0, 10);
    CheckPath(east.Do({"cp", "mine", "h"}), "local", 1);
    if (killed) {
      user->Signal(SIGKILL);
    } else {
      user->CloseInput();
    }
    user->Wait();
    WaitUntil("the buffer is gone", [&] { return east.Do({"buffer", "ls"}).size() == 1; });
    CHECK(Holds(east, "h", 10, 5'000'003));
  }
  CHECK(east.Run({"node", "release", "cuda:0"}).exit_status == 0);
}

TEST_CASE("a GPU that has buffers is not released, and one without is") {
  ONECOPY_NEEDS_GPUS(1);
  Node east("east");
  Create(east, "a", "cuda:0");
  const CommandResult used = east.Run({"node", "release", "cuda:0"});
  CHECK(used.exit_status == 7);
  CHECK(used.reason() == "DEVICE_IN_USE");
  east.Do({"buffer", "rm", "a"});
  CHECK(east.Run({"node", "release", "cuda:0"}).exit_status == 0);
}

}  // namespace onecopy::testing::daemons_test
