// dma-bufs of two clients, end to end: from a client's descriptor to the other's memory, by real
// verbs that are lent the one call that Soft-RoCE lacks.
#include <cstring>

#include "tests/cluster/receipts.h"
#include "tests/rdma/rdma_pair.h"
#include "tests/support/catch.h"
#include "tests/support/lent_verbs.h"

namespace dmabuf_test {

using onecopy::BufferInfo;
using onecopy::Client;
using onecopy::HostBuffer;
using onecopy::TransferInfo;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kMost = uint64_t{16} << 20;
// Where buffers begin in their dma-bufs: at no page.
constexpr uint64_t kLead = 4096 + 24;

std::string Library() {
  return "[libraries]\nibverbs = \"" + LentVerbs::Library().string() + "\"\n";
}

struct Rig {
  explicit Rig(const std::string& config = Library())
      : pair({.config = config, .environment = {lent.Environment()}}) {}

  // The buffer's bytes: from kLead on.
  static std::span<std::byte> Of(const DmaBuf& buffer) { return buffer.bytes().subspan(kLead); }
  static BufferInfo Register(Client& client, const std::string& name, const DmaBuf& buffer) {
    return Must(client.RegisterDmaBuf(name, buffer.fd(), kLead, Of(buffer).size()));
  }
  static void Fill(const DmaBuf& buffer, uint64_t seed) {
    const std::string bytes = Payload(Of(buffer).size(), seed);
    std::memcpy(Of(buffer).data(), bytes.data(), bytes.size());
  }

  LentVerbs lent;
  RdmaPair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
};

TransferInfo Run(Client& client, const onecopy::TransferRequest& request) {
  TransferInfo done = Must(client.RunTransfer(request));
  REQUIRE_OK(onecopy::OutcomeOf(done));
  return done;
}

const onecopy::Refusal* FindRefusal(const onecopy::Receipt& receipt, const std::string& path) {
  for (const onecopy::Refusal& refusal : receipt.refused) {
    if (refusal.path == path) return &refusal;
  }
  return nullptr;
}

void CheckUntouched(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    if (byte != std::byte{0xa7}) FAIL_CHECK("a byte beside the range was written");
  }
}

}  // namespace

TEST_CASE("one copy from dma-buf to dma-buf, of every size, at odd places, both ways") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  Rig rig;
  const DmaBuf a(kLead + kMost + 64);
  const DmaBuf b(kLead + kMost + 64);
  rig.lent.Tell(a);
  rig.lent.Tell(b);
  const BufferInfo info = Rig::Register(rig.east, "a", a);
  CHECK(info.memory == "dmabuf");
  CHECK(info.device.empty());
  CHECK(info.registered);
  Rig::Register(rig.west, "b", b);
  for (const bool back : {false, true}) {
    const DmaBuf& source = back ? b : a;
    const DmaBuf& destination = back ? a : b;
    Rig::Fill(source, back ? 2 : 1);
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{4097}, kMost / 16 - 1, kMost}) {
      INFO((back ? "back, " : "there, ") << bytes << " bytes");
      const std::span<std::byte> landing = Rig::Of(destination);
      std::memset(landing.data(), 0xa7, landing.size());
      const uint64_t before = PacketsReceived();
      const TransferInfo done =
          Run(rig.east, {.source = {back ? "west" : "east", back ? "b" : "a", 3, bytes},
                         .destination = {back ? "east" : "west", back ? "a" : "b", 5, {}},
                         .policy = {.path_glob = "rdma-direct"},
                         .checksum = true});
      CHECK(PacketsReceived() - before >= bytes / 4096);
      CHECK(done.receipt.path == "rdma-direct");
      CHECK(done.receipt.link == "verbs");
      CHECK(IsPayload(landing.data() + 5, bytes, back ? 2 : 1, 3));
      CheckUntouched(landing.first(5));
      CheckUntouched(landing.subspan(5 + bytes));
      REQUIRE(done.receipt.checksum.has_value());
      CHECK(done.receipt.checksum->verified);
      if (bytes == 0) continue;
      CHECK(done.receipt.copies() == 1);
      CHECK(done.receipt.emulated);
      CHECK(done.receipt.registration == "dma-buf");
      CHECK(done.receipt.key == "lease");
      REQUIRE(done.receipt.steps.size() == 1);
      CHECK(done.receipt.steps[0].step.from == "dmabuf");
      CHECK(done.receipt.steps[0].step.to == "dmabuf");
      CHECK(done.receipt.steps[0].step.by == "wire");
    }
  }
}

TEST_CASE("host memory at one end and a dma-buf at the other") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  Rig rig;
  const DmaBuf a(kLead + kMost);
  rig.lent.Tell(a);
  Rig::Register(rig.east, "a", a);
  Rig::Fill(a, 1);
  const HostBuffer host = Must(rig.west.CreateHostBuffer("b", Rig::Of(a).size()));
  const TransferInfo there = Run(rig.east, {.source = {"east", "a"},
                                            .destination = {"west", "b"},
                                            .policy = {.path_glob = "rdma-direct"}});
  CHECK(IsPayload(host.data(), host.bytes(), 1));
  CHECK(there.receipt.registration == "dma-buf > host");
  CHECK(there.receipt.key == "lease");
  std::memset(Rig::Of(a).data(), 0, Rig::Of(a).size());
  const TransferInfo back = Run(rig.east, {.source = {"west", "b"},
                                           .destination = {"east", "a"},
                                           .policy = {.path_glob = "rdma-direct"}});
  CHECK(IsPayload(Rig::Of(a).data(), Rig::Of(a).size(), 1));
  CHECK(back.receipt.registration == "host > dma-buf");
  CHECK(back.receipt.key == "window");
}

TEST_CASE("a dma-buf is staged, summed and copied inside its node like other memory") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  Rig rig;
  const DmaBuf a(kLead + kMost);
  const DmaBuf b(kLead + kMost);
  const DmaBuf c(kLead + kMost);
  Rig::Register(rig.east, "a", a);
  Rig::Register(rig.west, "b", b);
  Rig::Register(rig.east, "c", c);
  Rig::Fill(a, 1);
  for (const auto& [path, copies] :
       {std::pair("rdma-staged", 3), std::pair("tcp-staged", 5), std::pair("tcp-*", 5)}) {
    INFO(path);
    std::memset(Rig::Of(b).data(), 0, Rig::Of(b).size());
    const TransferInfo done = Run(rig.east, {.source = {"east", "a"},
                                             .destination = {"west", "b"},
                                             .policy = {.path_glob = path},
                                             .checksum = true});
    CHECK(IsPayload(Rig::Of(b).data(), Rig::Of(b).size(), 1));
    CHECK(done.receipt.copies() == static_cast<size_t>(copies));
    CHECK(done.receipt.steps.front().step.from == "dmabuf");
    CHECK(done.receipt.steps.front().step.by == "cpu");
    CHECK(done.receipt.steps.back().step.to == "dmabuf");
    CHECK(done.receipt.steps.back().step.by == "cpu");
  }
  const TransferInfo inside =
      Run(rig.east, {.source = {"east", "a"}, .destination = {"east", "c"}});
  CHECK(inside.receipt.path == "local");
  CHECK(inside.receipt.copies() == 1);
  CHECK(IsPayload(Rig::Of(c).data(), Rig::Of(c).size(), 1));
  CHECK(Must(rig.east.SumBuffer({"east", "a"})).value ==
        Must(rig.west.SumBuffer({"west", "b"})).value);
  CHECK(Contents(rig.pair.east, "a") == Payload(Rig::Of(a).size(), 1));
}

TEST_CASE("where the device takes no dma-buf its own answer is told, and the next path is taken") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  const std::string config = GENERATE(std::string(), Library());  // lent, but not told
  Rig rig(config);
  const DmaBuf a(kLead + 100'000);
  const DmaBuf b(kLead + 100'000);
  Rig::Register(rig.east, "a", a);
  Rig::Register(rig.west, "b", b);
  Rig::Fill(a, 1);
  const TransferInfo done = Run(
      rig.east,
      {.source = {"east", "a"}, .destination = {"west", "b"}, .policy = {.path_glob = "rdma-*"}});
  CHECK(done.receipt.path == "rdma-staged");
  CHECK(IsPayload(Rig::Of(b).data(), Rig::Of(b).size(), 1));
  for (const char* path : {"rdma-direct", "rdma-bounce"}) {
    INFO(path);
    const onecopy::Refusal* refusal = FindRefusal(done.receipt, path);
    REQUIRE(refusal != nullptr);
    CHECK(refusal->reason == "GPU_NOT_PINNABLE");
    CHECK(refusal->detail.find("not supported") != std::string::npos);
  }
  CheckRefused(rig.pair.east.Run({"cp", "a", "west:b", "--path", "rdma-direct"}), 7,
               "FAILED_PRECONDITION", "POLICY_UNMET");
}

TEST_CASE("a descriptor whose bytes the device reads otherwise than the processor is caught") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  Rig rig;
  const DmaBuf a(kLead + 100'000);
  const DmaBuf b(kLead + 100'000);
  const DmaBuf other(kLead + 100'000);
  rig.lent.Tell(a, other);  // a lie
  rig.lent.Tell(b);
  Rig::Register(rig.east, "a", a);
  Rig::Register(rig.west, "b", b);
  Rig::Fill(a, 1);
  Rig::Fill(other, 2);
  const TransferInfo done = Run(
      rig.east,
      {.source = {"east", "a"}, .destination = {"west", "b"}, .policy = {.path_glob = "rdma-*"}});
  CHECK(done.receipt.path == "rdma-bounce");
  CHECK(IsPayload(Rig::Of(b).data(), Rig::Of(b).size(), 1));
  const onecopy::Refusal* refusal = FindRefusal(done.receipt, "rdma-direct");
  REQUIRE(refusal != nullptr);
  CHECK(refusal->reason == "BAD_HANDLE");
  CHECK(refusal->detail.find("rxe0") != std::string::npos);
  CHECK(refusal->detail.find("\"a\"") != std::string::npos);
  // It stays refused, at the other end too.
  const TransferInfo back = Run(
      rig.east,
      {.source = {"west", "b"}, .destination = {"east", "a"}, .policy = {.path_glob = "rdma-*"}});
  CHECK((back.receipt.path == "rdma-bounce" || back.receipt.path == "rdma-staged"));
  const onecopy::Refusal* again = FindRefusal(back.receipt, "rdma-direct");
  REQUIRE(again != nullptr);
  CHECK(again->reason == "BAD_HANDLE");
  CHECK(IsPayload(Rig::Of(other).data(), Rig::Of(other).size(), 2));  // not written
}

TEST_CASE("what is no dma-buf is refused, and none can be created") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  Rig rig;
  const DmaBuf a(4096);
  const auto refused = rig.east.RegisterDmaBuf("m", a.memory_fd(), 0, 4096);
  CHECK(refused.status().reason() == "BAD_HANDLE");
  CHECK(rig.east.RegisterDmaBuf("m", a.fd(), 1, 4096).status().reason() == "RANGE_OUT_OF_BUFFER");
  REQUIRE_OK(rig.east.RegisterDmaBuf("m", a.fd(), 1, 4095));
  CheckRefused(rig.pair.east.Run({"buffer", "create", "n", "--size", "4096", "--memory", "dmabuf"}),
               7, "FAILED_PRECONDITION", "NOT_APPLICABLE");
}

TEST_CASE(
    "regions of dma-bufs are as many after many transfers as before, and go with the buffer") {
  if (!DmaBuf::WhyNot().empty()) ONECOPY_SKIP(DmaBuf::WhyNot());
  Rig rig(Library() + "[verbs]\nlease = \"0s\"\n");
  const DmaBuf a(kLead + 4096);
  const DmaBuf b(kLead + 4096);
  rig.lent.Tell(a);
  rig.lent.Tell(b);
  const auto move = [&] {
    Run(rig.east, {.source = {"east", "a"},
                   .destination = {"west", "b"},
                   .policy = {.path_glob = "rdma-direct"}});
  };
  size_t regions = 0;
  for (int round = 0; round < 3; ++round) {
    Rig::Register(rig.east, "a", a);
    Rig::Register(rig.west, "b", b);
    for (int i = 0; i < 20; ++i) move();
    REQUIRE_OK(rig.east.DeleteBuffer("a"));
    REQUIRE_OK(rig.west.DeleteBuffer("b"));
    if (round == 0) regions = CountResources("mr");
  }
  // Of the first round some may have been on their way out when they were counted.
  WaitUntil("regions have gone", [&] { return CountResources("mr") <= regions; });
  CHECK(CountResources("mr") <= regions);
}

}  // namespace dmabuf_test
