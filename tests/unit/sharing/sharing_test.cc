// GPU memory that one daemon of a host uses in another's place, between two engines.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <thread>

#include "daemon/handover/server.h"
#include "onecopy/reasons.h"
#include "tests/support/fake_rdma.h"
#include "tests/support/memory.h"
#include "tests/unit/sharing/gpu_rig.h"
#include "transport/os/sockets/unix_socket.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

Refusal AgainstSharing(const TransferInfo& info) {
  for (const Refusal& refusal : info.receipt.refused) {
    if (refusal.path == "peer-direct") return refusal;
  }
  return {};
}

void CheckShared(const TransferInfo& info) {
  INFO(info.error.ToString());
  INFO(AgainstSharing(info).reason << " " << AgainstSharing(info).detail);
  CHECK(info.state == TransferState::kSucceeded);
  CHECK(info.receipt.path == "peer-direct");
  CHECK(info.receipt.link.empty());
  REQUIRE(info.receipt.steps.size() == 1);
  CHECK(info.receipt.steps[0].step.from == "GPU-fake-0");
  CHECK(info.receipt.steps[0].step.to == "GPU-fake-1");
  CHECK(info.receipt.steps[0].step.node == "west");
  CHECK(info.receipt.steps[0].bytes == info.bytes);
  CHECK(info.receipt.evidence.at("shared") == "vmm-fd");
}

// It took the next path, and says why.
void CheckInstead(GpuRig& rig, const TransferInfo& info, std::string_view reason) {
  INFO(info.error.ToString());
  CHECK(info.state == TransferState::kSucceeded);
  CHECK(info.receipt.path == "tcp-staged");
  CHECK(AgainstSharing(info).reason == reason);
  CHECK_FALSE(AgainstSharing(info).detail.empty());
  CHECK(rig.Holds("west", rig.bob, "b", 1));
  CHECK(rig.controls["west"]->imported() == 0);
}

}  // namespace

TEST_CASE("a GPU's memory of another daemon is copied from in place, and mapped once") {
  GpuRig rig;
  CheckShared(rig.Copy());
  CHECK(rig.Holds("west", rig.bob, "b", 1));
  rig.Put("east", rig.alice, "a", 2);
  TransferRequest checked = Request("east:a", "west:b");
  checked.checksum = true;
  const TransferInfo again = rig.Copy(checked);
  CheckShared(again);
  CHECK(again.receipt.checksum.value().verified);
  CHECK(rig.Holds("west", rig.bob, "b", 2));
  CHECK(rig.controls["west"]->imports() == 1);
  CHECK(rig.cluster.calls("ImportMemory") == 1);
}

TEST_CASE("ranges of lent memory begin and end where they should") {
  GpuRig rig;
  rig.Put("west", rig.bob, "b", 7);
  CheckShared(rig.Copy(Request("east:a@5+100001", "west:b@17")));
  CheckShared(rig.Copy(Request("east:a@300006+1", "west:b@0")));
  const TransferInfo nothing = rig.Copy(Request("east:a@3+0", "west:b@9"));
  CHECK(nothing.state == TransferState::kSucceeded);
  CHECK(nothing.receipt.path == "peer-direct");
  auto plain = rig.cluster["west"].Register(rig.bob, "seen", kGpuBytes);
  REQUIRE_OK(plain);
  REQUIRE_OK(rig.cluster["west"].Copy(rig.bob, Request(":b", ":seen")));
  for (uint64_t i = 0; i < kGpuBytes; ++i) {
    const std::byte wanted = i == 0                       ? PatternAt(300006, 1)
                             : i >= 17 && i < 17 + 100001 ? PatternAt(i - 17 + 5, 1)
                                                          : PatternAt(i, 7);
    if (plain->data[i] != wanted) {
      CAPTURE(i);
      REQUIRE(plain->data[i] == wanted);
    }
  }
}

TEST_CASE("what no transfer uses any more is unmapped after a while") {
  GpuRig rig([](const std::string&, NodePlan& plan) {
    plan.options.imported_idle = std::chrono::milliseconds(1);
  });
  CheckShared(rig.Copy());
  AwaitUnmapped(*rig.controls["west"]);
  CheckShared(rig.Copy());
  CHECK(rig.controls["west"]->imports() == 2);
}

TEST_CASE("a buffer is removed when nobody has it mapped any more, and its name means a new one") {
  GpuRig rig;
  CheckShared(rig.Copy());
  CHECK(rig.controls["west"]->imported() == 1);
  REQUIRE_OK(rig.Remove("east", rig.alice, "a"));
  CHECK(rig.controls["west"]->imported() == 0);
  rig.Create("east", rig.alice, "a", "cuda:0");
  rig.Put("east", rig.alice, "a", 3);
  CheckShared(rig.Copy());
  CHECK(rig.Holds("west", rig.bob, "b", 3));
  CHECK(rig.controls["west"]->imports() == 2);
}

TEST_CASE("a borrower that does not answer does not hold a removal up for ever") {
  GpuRig rig;
  CheckShared(rig.Copy());
  rig.cluster.HangCalls("Recall");
  REQUIRE_OK(rig.Remove("east", rig.alice, "a"));
}

TEST_CASE("a mapping of a buffer that is not there any more is not used again") {
  GpuRig rig;
  CheckShared(rig.Copy());
  rig.cluster.FailCalls("Recall");
  REQUIRE_OK(rig.Remove("east", rig.alice, "a"));
  rig.cluster.AllowCalls("Recall");
  rig.Create("east", rig.alice, "a", "cuda:0");
  rig.Put("east", rig.alice, "a", 4);
  CHECK(rig.controls["west"]->imported() == 1);
  CheckShared(rig.Copy());
  CHECK(rig.Holds("west", rig.bob, "b", 4));
  CHECK(rig.controls["west"]->imports() == 2);
}

TEST_CASE("a source that restarts has lent nothing") {
  GpuRig rig;
  CheckShared(rig.Copy());
  rig.cluster.Restart("east");
  rig.cluster.WaitForPeer("east", "west", NodeState::kConnected);
  AwaitUnmapped(*rig.controls["west"]);
  rig.alice = rig.cluster["east"].Attach();
  rig.Create("east", rig.alice, "a", "cuda:0");
  rig.Put("east", rig.alice, "a", 5);
  rig.cluster.WaitForPeer("west", "east", NodeState::kConnected);
  CheckShared(rig.Copy());
  CHECK(rig.Holds("west", rig.bob, "b", 5));
}

TEST_CASE("a buffer that is taken away ends the copy that reads it, and is let go") {
  GpuRig rig;
  rig.controls["west"]->Set([](FakeGpus::Hooks& hooks) { hooks.hold = true; });
  const auto started = rig.cluster["west"].Start(rig.bob, Request("east:a", "west:b"));
  REQUIRE_OK(started);
  while (rig.controls["west"]->held() == 0) std::this_thread::yield();
  CHECK(rig.Remove("east", rig.alice, "a").reason() == reasons::kBufferInUse);
  auto remover =
      std::async(std::launch::async, [&] { return rig.Remove("east", rig.alice, "a", true); });
  while (rig.cluster.calls("Recall") == 0) std::this_thread::yield();
  rig.controls["west"]->Release();
  const TransferInfo ended = rig.cluster["west"].Wait(rig.bob, started->id);
  INFO(ended.error.ToString());
  CHECK(ended.state == TransferState::kCancelled);
  CHECK(ended.error.message().find("was removed by") != std::string::npos);
  CHECK(remover.get().ok());
  CHECK(rig.controls["west"]->imported() == 0);
}

namespace {

Status ADetour() {
  return {Code::kFailedPrecondition, reasons::kNotOnePass, "it took ten times as long"};
}

}  // namespace

TEST_CASE("between daemons, a copy that is seen to take a detour gives way to an honest path") {
  GpuRig rig;
  rig.controls["west"]->Set([](FakeGpus::Hooks& hooks) { hooks.on_prove = ADetour; });
  const TransferInfo info = rig.Copy();
  INFO(info.error.ToString());
  CHECK(info.state == TransferState::kSucceeded);
  CHECK(info.receipt.path == "tcp-staged");
  CHECK(AgainstSharing(info).reason == reasons::kNotOnePass);
  CHECK(AgainstSharing(info).detail.find("ten times") != std::string::npos);
  CHECK_FALSE(info.receipt.evidence.contains("one_pass"));
  REQUIRE(info.receipt.attempts.size() == 2);
  CHECK(info.receipt.attempts[0].outcome == reasons::kNotOnePass);
  CHECK(rig.Holds("west", rig.bob, "b", 1));
}

TEST_CASE("between daemons, who takes nothing but one copy is refused when it is seen to be none") {
  GpuRig rig;
  rig.controls["west"]->Set([](FakeGpus::Hooks& hooks) { hooks.on_prove = ADetour; });
  TransferRequest request = Request("east:a", "west:b");
  request.policy.at_most_copies = 1;
  const TransferInfo info = rig.Copy(request);
  CHECK(info.state == TransferState::kFailed);
  CHECK(info.error.reason() == reasons::kPolicyUnmet);
}

TEST_CASE("inside a daemon, a copy that is seen to take a detour goes through host memory") {
  GpuRig rig;
  rig.Create("east", rig.alice, "c", "cuda:1");
  rig.controls["east"]->Set([](FakeGpus::Hooks& hooks) { hooks.on_prove = ADetour; });
  const auto copied = rig.cluster["east"].Copy(rig.alice, Request(":a", ":c"));
  REQUIRE_OK(copied);
  CHECK(copied->receipt.path == "peer-bounce");
  CHECK(AgainstSharing(*copied).reason == reasons::kNotOnePass);
  CHECK(rig.Holds("east", rig.alice, "c", 1));
}

TEST_CASE("what was seen of a copy between GPUs is in the receipt") {
  GpuRig rig;
  for (auto& [node, control] : rig.controls) {
    control->Set([](FakeGpus::Hooks& hooks) { hooks.on_prove = [] { return OkStatus(); }; });
  }
  const TransferInfo between = rig.Copy();
  CheckShared(between);
  CHECK(between.receipt.evidence.at("one_pass") == "seen");
  rig.Create("east", rig.alice, "c", "cuda:1");
  const auto inside = rig.cluster["east"].Copy(rig.alice, Request(":a@5+100", ":c@7"));
  REQUIRE_OK(inside);
  CHECK(inside->receipt.evidence.at("one_pass") == "seen");
}

TEST_CASE("memory that cannot be shared goes another way, with its reason") {
  GpuRig rig;
  SECTION("the source refuses") {
    rig.controls["east"]->Set([](FakeGpus::Hooks& hooks) {
      hooks.on_share = [] {
        return Status(Code::kFailedPrecondition, reasons::kNotShareable, "not this memory");
      };
    });
    CheckInstead(rig, rig.Copy(), reasons::kNotShareable);
  }
  SECTION("the destination cannot map it") {
    rig.controls["west"]->Set([](FakeGpus::Hooks& hooks) {
      hooks.on_import = [] {
        return Status(Code::kFailedPrecondition, reasons::kPidNamespace, "not from there");
      };
    });
    CheckInstead(rig, rig.Copy(), reasons::kPidNamespace);
  }
  SECTION("a policy that wants nothing else fails") {
    rig.controls["east"]->Set([](FakeGpus::Hooks& hooks) {
      hooks.on_share = [] { return Status(Code::kInternal, reasons::kInternal, "it broke"); };
    });
    TransferRequest request = Request("east:a", "west:b");
    request.policy.path_glob = "peer-direct";
    const TransferInfo ended = rig.Copy(request);
    CHECK(ended.state == TransferState::kFailed);
    CHECK(ended.error.reason() == reasons::kPolicyUnmet);
  }
}

TEST_CASE("a peer whose socket misbehaves costs one path, and leaks nothing") {
  GpuRig rig;
  const std::string name = "onecopy-test-" + std::to_string(::getpid());
  SECTION("another token") {
    rig.cluster.ChangeReplies<MemoryExport>(
        [](MemoryExport& loan) { loan.token = std::string(32, '0'); });
    CheckInstead(rig, rig.Copy(), reasons::kGrantExpired);
  }
  SECTION("nobody there") {
    rig.cluster.ChangeReplies<MemoryExport>([&](MemoryExport& loan) { loan.address = name; });
    CheckInstead(rig, rig.Copy(), reasons::kLinkDown);
  }
  SECTION("a socket that never answers") {
    const auto listener = os::ListenAbstract(name, SOCK_SEQPACKET, 8);
    REQUIRE_OK(listener);
    rig.cluster.ChangeReplies<MemoryExport>([&](MemoryExport& loan) { loan.address = name; });
    CheckInstead(rig, rig.Copy(), reasons::kLinkDown);
  }
  SECTION("memory without its descriptor") {
    handover::Server* server = nullptr;
    os::LoopThread thread("server");
    handover::Address address;
    thread.RunSync([&] {
      server = new handover::Server(thread.loop());
      ImportRequest memory;
      memory.form = "cuda-vmm";
      memory.device = "GPU-fake-0";
      memory.bytes = kGpuBytes;
      address = *server->Offer(memory, {});
    });
    rig.cluster.ChangeReplies<MemoryExport>([&](MemoryExport& loan) {
      loan.address = address.name;
      loan.token = address.token;
    });
    CheckInstead(rig, rig.Copy(), reasons::kBadHandle);
    thread.RunSync([&] { delete server; });
  }
  // What went wrong once does not stay.
  rig.cluster.ChangeReplies<MemoryExport>({});
  CheckShared(rig.Copy());
}

TEST_CASE("many transfers at once share one mapping") {
  GpuRig rig;
  for (int i = 0; i < 8; ++i) rig.Create("west", rig.bob, "b" + std::to_string(i), "cuda:1");
  std::vector<TransferInfo> started;
  for (int i = 0; i < 8; ++i) {
    const auto one =
        rig.cluster["west"].Start(rig.bob, Request("east:a", "west:b" + std::to_string(i)));
    REQUIRE_OK(one);
    started.push_back(*one);
  }
  for (const TransferInfo& one : started) CheckShared(rig.cluster["west"].Wait(rig.bob, one.id));
  CHECK(rig.controls["west"]->imports() == 1);
  for (int i = 0; i < 8; ++i) CHECK(rig.Holds("west", rig.bob, "b" + std::to_string(i), 1));
}

TEST_CASE("nobody borrows without a ticket, or what was not lent") {
  GpuRig rig;
  rig.cluster["west"].engine().loop();
  std::promise<Status> answered;
  rig.cluster["east"].engine().loop().Post([&] {
    rig.cluster["east"].engine().node().ImportMemory(
        "west", {"no ticket", TransferId("t")},
        [&](const Result<MemoryExport>& loan) { answered.set_value(loan.status()); });
  });
  CHECK(answered.get_future().get().code() == Code::kPermissionDenied);
  std::promise<Status> recalled;
  rig.cluster["west"].engine().loop().Post([&] {
    rig.cluster["west"].engine().node().Recall(
        "east", 4711, {}, [&](const Status& status) { recalled.set_value(status); });
  });
  REQUIRE_OK(recalled.get_future().get());
}

TEST_CASE("what network devices wrote into a GPU is flushed before it counts as there") {
  std::map<std::string, std::shared_ptr<FakeNics>> nics;
  Status outcome;
  std::atomic<bool> landed{false};
  std::atomic<bool> flushed_early{false};
  GpuRig rig([&](const std::string& name, NodePlan& plan) {
    nics[name] = std::make_shared<FakeNics>();
    plan.links.push_back(MakeFakeRdma(MakeTcpLink(name), 1, nics[name]));
  });
  rig.controls["west"]->Set([&](FakeGpus::Hooks& hooks) {
    hooks.on_flush = [&] {
      if (!landed) flushed_early = true;
      return outcome;
    };
  });
  nics["west"]->Set(
      [&](FakeNics::Hooks& hooks) { hooks.on_landed = [&](const Span&) { landed = true; }; });
  rig.Create("west", rig.bob, "g", "cuda:0");
  auto plain = rig.cluster["east"].Register(rig.alice, "h", kGpuBytes);
  REQUIRE_OK(plain);
  std::fill_n(plain->data, kGpuBytes, std::byte{7});  // links do not read what has holes
  TransferRequest request = Request("east:h", "west:g");
  request.policy.path_glob = "rdma-direct";
  const TransferInfo copied = rig.Copy(request);
  INFO(copied.error.ToString());
  CHECK(copied.state == TransferState::kSucceeded);
  CHECK(rig.controls["west"]->flushes() == 1);
  CHECK_FALSE(flushed_early);
  SECTION("a failure of that is the transfer's") {
    outcome = Status(Code::kInternal, reasons::kInternal, "the driver said no");
    const TransferInfo failed = rig.Copy(request);
    CHECK(failed.state == TransferState::kFailed);
    CHECK(failed.error.message().find("the driver said no") != std::string::npos);
  }
  SECTION("what came through host memory needs none") {
    request.policy.path_glob = "tcp-bounce";
    CHECK(rig.Copy(request).state == TransferState::kSucceeded);
    CHECK(rig.controls["west"]->flushes() == 1);
  }
}
