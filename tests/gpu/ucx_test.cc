// UCX between GPUs of two processes of one machine. It needs a UCX that has CUDA: the file of its
// libucp in ONECOPY_TEST_UCX, else the system's.
#include <chrono>
#include <cstdio>

#include "tests/conformance/memory/bytes.h"
#include "tests/gpu/ucx_link.h"
#include "tests/support/process.h"

namespace onecopy::testing {
namespace {

[[maybe_unused]] const bool kPrepared = [] {
  shim::PrepareUcxEnvironment();
  return true;
}();

// UCX keeps mappings of peers' memory beyond its end, in the contexts of the GPUs. A daemon has one
// UCX for as long as it lives; this program opens several, one after the other.
void KeepContexts() {
  const auto& api = **TheDriver();
  int count = 0;
  REQUIRE(api.DeviceGetCount(&count) == CUDA_SUCCESS);
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    CUcontext context = nullptr;
    REQUIRE(api.DeviceGet(&device, i) == CUDA_SUCCESS);
    REQUIRE(api.DevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
  }
}

std::string LibraryPath() {
  const char* path = std::getenv("ONECOPY_TEST_UCX");
  return path == nullptr ? std::string() : path;
}

// Why UCX cannot do this here; empty where it can.
std::string WhyNot(const Link& link) {
  const LinkCapability ucx = link.Describe();
  if (!ucx.viability.viable) return ucx.viability.detail;
  for (const NicCapability& nic : ucx.nics) {
    if (nic.name == "cuda_ipc") return {};
  }
  return "UCX " + ucx.version + " has no cuda_ipc: name one that has in ONECOPY_TEST_UCX";
}

std::string After(const std::string& word, const std::string& line) {
  INFO(line);
  REQUIRE(line.rfind(word + " ", 0) == 0);
  return line.substr(word.size() + 1, line.size() - word.size() - 2);
}

std::map<std::string, uint64_t> EvidenceOf(Connection& connection) {
  std::promise<std::map<std::string, uint64_t>> promise;
  connection.Evidence([&](const auto& evidence) {
    promise.set_value({evidence.begin(), evidence.end()});
  });
  return promise.get_future().get();
}

Got GetAll(Connection& reader, const RemoteKey& key, const RegionRef& sink, uint64_t bytes) {
  std::vector<std::future<Got>> gets;
  for (uint64_t at = 0; at < bytes; at += reader.chunk_bytes()) {
    auto promise = std::make_shared<std::promise<Got>>();
    gets.push_back(promise->get_future());
    reader.Get({1, &key, at, {sink, at, std::min(reader.chunk_bytes(), bytes - at)}},
               [promise](Status status, const StepList& steps, unsigned lane) {
                 promise->set_value({std::move(status), steps, lane});
               });
  }
  Got last;
  for (auto& get : gets) {
    Got got = get.get();
    if (last.status.ok()) last = std::move(got);
  }
  return last;
}

void ReadBetweenGpus(const std::string& from, const std::string& to, const char* whose) {
  KeepContexts();
  const auto memory = RealMemory();  // outlives the link, as in a daemon
  const std::unique_ptr<Link> link = MakeUcxLink("reader", LibraryPath());
  if (const std::string why = WhyNot(*link); !why.empty()) ONECOPY_SKIP(why);
  constexpr uint64_t kBytes = (uint64_t{256} << 20) + 3;
  Process owner({.program = (ProgramFolder() / "support/ucx_owner").string(),
                 .arguments = {from, std::to_string(kBytes), LibraryPath(), whose},
                 .input_file = ""});
  const auto uuid = memory->FindDevice(to);
  REQUIRE_OK(uuid);
  auto allocated = memory->Allocate(*uuid, kBytes);
  REQUIRE_OK(allocated);
  RegionRef sink = std::move(*allocated);
  REQUIRE_OK(link->Register(sink));

  const auto dialing = Dial(*link, "owner");
  REQUIRE_OK(dialing);
  owner.Write("accept " + ToHex((*dialing)->offer()) + "\n");
  const std::string answer = FromHex(After("answer", owner.ReadLine()));
  std::promise<Result<std::shared_ptr<Connection>>> established;
  (*dialing)->Establish("127.0.0.1", answer,
                        [&](auto made) { established.set_value(std::move(made)); });
  const auto reader = established.get_future().get();
  REQUIRE_OK(reader);
  owner.Write("export\n");
  const RemoteKey key = FromHex(After("key", owner.ReadLine()));

  for (int round = 0; round < 3; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    const Got got = GetAll(**reader, key, sink, kBytes);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    REQUIRE_OK(got.status);
    REQUIRE(got.steps->size() == 1);
    CHECK(got.steps->front().by == "copy-engine");
    std::printf("%s -> %s, round %d: %.1f GB/s\n", from.c_str(), to.c_str(), round,
                static_cast<double>(kBytes) / seconds.count() / 1e9);
  }
  for (const auto& [protocol, bytes] : EvidenceOf(**reader)) {
    INFO(protocol);
    CHECK(protocol.find("cuda_ipc") != std::string::npos);
    CHECK(bytes == 3 * kBytes);
  }
  const Bytes read = ReadAll(*memory, sink);
  uint64_t right = 0;
  while (right < kBytes && static_cast<std::byte>(read[right]) == PatternAt(right, kUcxSeed))
    ++right;
  CHECK(right == kBytes);

  owner.Write("withdraw\n");
  CHECK(owner.ReadLine() == "withdrawn\n");
  CHECK_FALSE(GetAll(**reader, key, sink, 4096).status.ok());
  owner.CloseInput();
  CHECK(owner.Wait() == 0);
  link->Shutdown();
}

}  // namespace

TEST_CASE("ucx reads the memory of another process's GPU in one copy, by cuda_ipc") {
  ONECOPY_NEEDS_GPUS(2);
  ReadBetweenGpus("cuda:0", "cuda:1", "client");
}

TEST_CASE("ucx reads another process's memory of the same GPU") {
  ONECOPY_NEEDS_GPUS(1);
  ReadBetweenGpus("cuda:0", "cuda:0", "client");
}

TEST_CASE("ucx reads memory that a daemon allocated for it in one copy, by cuda_ipc") {
  ONECOPY_NEEDS_GPUS(2);
  ReadBetweenGpus("cuda:0", "cuda:1", "daemon");
}

}  // namespace onecopy::testing
