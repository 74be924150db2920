// Buffers, grants and nodes over real sockets.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "client/lib/calls/wire.h"
#include "onecopy/reasons.h"
#include "tests/unit/client/client_fixture.h"
#include "tests/unit/client/gpus.h"
#include "transport/os/memory/mapping.h"

namespace calls_test {
using onecopy::Client;
using onecopy::Code;
using onecopy::testing::MakeFakeRdma;
using onecopy::testing::MakeTcpLink;
using onecopy::testing::NodePlan;
using onecopy::testing::WithGpus;

namespace os = onecopy::os;

namespace {

struct CallsFixture : onecopy::testing::ClientFixture {
  using ClientFixture::ClientFixture;

  // What the daemon sees of a buffer.
  std::string Bytes(const std::string& name, uint64_t bytes) {
    daemon.AddBuffer("west", "seen", bytes);
    REQUIRE_OK(client.RunTransfer({.source = {"", name}, .destination = {"west", "seen"}}));
    return daemon.Bytes("west", "seen");
  }
};

std::string Self() { return std::to_string(::geteuid()) + "@east"; }

bool IsJustNow(onecopy::WallTime time) {
  const auto since = std::chrono::system_clock::now() - time;
  return since > -std::chrono::seconds(1) && since < std::chrono::minutes(10);
}

}  // namespace

TEST_CASE("a buffer is created, found by name and id, summed and deleted") {
  CallsFixture f(WithGpus());
  const auto made = f.client.CreateBuffer({.name = "a", .bytes = 4096, .memory = "cuda:0"});
  REQUIRE_OK(made);
  CHECK(made->node == "east");
  CHECK(made->name == "a");
  CHECK(made->memory == "cuda");
  CHECK(made->device.starts_with("GPU-"));
  CHECK(made->bytes == 4096);
  CHECK(made->owner == Self());
  CHECK_FALSE(made->registered);
  CHECK(IsJustNow(made->create_time));
  const auto by_id = f.client.GetBuffer("", made->id);
  REQUIRE_OK(by_id);
  CHECK(by_id->name == "a");
  const auto sum = f.client.SumBuffer({"", "a", 96, {}});
  REQUIRE_OK(sum);
  CHECK(sum->bytes == 4000);
  CHECK(sum->algorithm == "xxh3-128");
  REQUIRE_OK(f.client.DeleteBuffer("a"));
  const onecopy::Status gone = f.client.GetBuffer("", "a").status();
  CHECK(gone.code() == Code::kNotFound);
  CHECK(gone.reason() == onecopy::reasons::kBufferNotFound);
  CHECK(gone.remedy().find("onecopy buffer ls") != std::string::npos);
}

TEST_CASE("a name that is taken is refused with the daemon's reason") {
  CallsFixture f;
  f.daemon.AddBuffer("east", "a", 1);
  const onecopy::Status status =
      f.client.CreateBuffer({.name = "a", .bytes = 1, .memory = "host"}).status();
  CHECK(status.code() == Code::kAlreadyExists);
  CHECK(status.reason() == onecopy::reasons::kNameTaken);
}

TEST_CASE("lists are read to their last page") {
  CallsFixture f;
  constexpr int kBuffers = 405;  // three pages
  for (int i = 0; i < kBuffers; ++i) {
    const std::string name = "b" + std::to_string(1000 + i);
    REQUIRE_OK(f.client.CreateBuffer({.name = name, .bytes = 1, .memory = "host"}));
  }
  const auto buffers = f.client.ListBuffers();
  REQUIRE_OK(buffers);
  REQUIRE(buffers->size() == kBuffers);
  CHECK(buffers->front().name == "b1000");
  CHECK(buffers->back().name == "b1404");
  const auto none = f.client.ListBuffers("west");
  REQUIRE_OK(none);
  CHECK(none->empty());
}

TEST_CASE("memory of the library is shared with the daemon until the owner lets it go") {
  CallsFixture f;
  {
    auto buffer = f.client.CreateHostBuffer("window", 10000);
    REQUIRE_OK(buffer);
    CHECK(buffer->bytes() == 10000);
    CHECK(buffer->info().registered);
    std::memcpy(buffer->data() + 9990, "here I am", 9);
    CHECK(f.Bytes("window", 10000).substr(9990, 9) == "here I am");
    CHECK(buffer->endpoint(5, 7).ToString() == "east:" + buffer->info().id + "@5+7");
    onecopy::HostBuffer moved = std::move(*buffer);
    CHECK(buffer->bytes() == 0);  // as there is no data()
    CHECK(f.daemon.buffers().size() == 1);
    REQUIRE_OK(moved.Close());
    CHECK(f.daemon.buffers().empty());
    REQUIRE_OK(moved.Close());  // a second time is no error
  }
  const auto anonymous = f.client.CreateHostBuffer("", 1);
  REQUIRE_OK(anonymous);
  CHECK_FALSE(anonymous->info().name.empty());
  CHECK(f.client.CreateHostBuffer("none", 0).status().code() == Code::kInvalidArgument);
}

TEST_CASE("a caller's own memfd is registered from an offset") {
  CallsFixture f;
  auto fd = os::SealedMemfd("mine", 8192);
  REQUIRE_OK(fd);
  const auto mapping = os::MapShared(fd->get(), 8192);
  REQUIRE_OK(mapping);
  std::memcpy(mapping->data() + 4096, "tail", 4);
  REQUIRE_OK(f.client.RegisterMemfd("mine", fd->get(), 4096, 4096));
  fd->Reset();  // the daemon has its own
  CHECK(f.Bytes("mine", 4096).substr(0, 4) == "tail");
}

TEST_CASE("what is no descriptor is refused before the daemon sees it") {
  CallsFixture f;
  for (const int fd : {-1, 987654}) {
    const onecopy::Status status = f.client.RegisterMemfd("x", fd, 0, 1).status();
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.reason() == onecopy::reasons::kBadHandle);
  }
  REQUIRE_OK(f.client.CreateHostBuffer("still-attached", 1));
}

TEST_CASE("names that cannot be are refused here, with what is wrong") {
  CallsFixture f;
  for (const std::string& name :
       {std::string(257, 'x'), std::string("a\nb"), std::string("\xff"), std::string("\0", 1)}) {
    CHECK(f.client.GetBuffer("", name).status().reason() == onecopy::reasons::kBadName);
    CHECK(f.client.GetBuffer(name, "a").status().reason() == onecopy::reasons::kBadName);
    CHECK(f.client.GetTransfer(onecopy::TransferId(name)).status().reason() ==
          onecopy::reasons::kBadName);
  }
}

TEST_CASE("grants are made, listed and taken back") {
  CallsFixture f;
  f.daemon.AddBuffer("east", "a", 100);
  onecopy::CreateGrantRequest request;
  request.range = {"", "a", 10, 20};
  request.to = "1000@west";
  request.read = true;
  request.lifetime = std::chrono::hours(1);
  const auto grant = f.client.CreateGrant(request);
  REQUIRE_OK(grant);
  CHECK(grant->range == onecopy::ByteRange{10, 20});
  CHECK(grant->to == "1000@west");
  CHECK(grant->read);
  CHECK_FALSE(grant->write);
  REQUIRE(grant->expire_time.has_value());
  CHECK(IsJustNow(*grant->expire_time - std::chrono::hours(1)));
  const auto listed = f.client.ListGrants("a");
  REQUIRE_OK(listed);
  REQUIRE(listed->size() == 1);
  CHECK(listed->front().id == grant->id);
  REQUIRE_OK(f.client.DeleteGrant(grant->id));
  CHECK(f.client.DeleteGrant(grant->id).reason() == onecopy::reasons::kGrantNotFound);
}

TEST_CASE("nodes are listed to the last page, and shown with all that they can do") {
  constexpr size_t kAway = 205;  // more than a page, and nobody answers for them
  CallsFixture f([](const std::string& node, NodePlan& plan) {
    WithGpus()(node, plan);
    if (node != "east") return;
    plan.options.uid_domain = "lab";
    plan.options.reconnect_delay_min = plan.options.reconnect_delay_max = std::chrono::minutes(1);
    for (size_t i = 0; i < kAway; ++i) {
      plan.options.peers.push_back({"z" + std::to_string(1000 + i), "127.0.0.1:1", {}});
    }
  });
  const auto nodes = f.client.ListNodes();
  REQUIRE_OK(nodes);
  REQUIRE(nodes->size() == kAway + 2);
  CHECK(nodes->front().self);
  CHECK(nodes->back().name == "z1204");
  const auto away = f.client.GetNode("z1204");
  REQUIRE_OK(away);
  CHECK(away->state == onecopy::NodeState::kDisconnected);
  CHECK(away->reason == "PEER_DOWN");
  CHECK_FALSE(away->capabilities.has_value());

  const auto node = f.client.GetNode();
  REQUIRE_OK(node);
  CHECK(node->name == "east");
  CHECK(node->uid_domain == "lab");
  CHECK(node->protocol_max >= 1);
  REQUIRE(node->capabilities.has_value());
  REQUIRE(node->capabilities->memories.size() == 3);
  CHECK(node->capabilities->memories.at(0).kind == "host");
  const auto& gpu = node->capabilities->memories.at(1);
  CHECK(gpu.kind == "cuda");
  CHECK(gpu.ordinal == 0);
  CHECK(gpu.viability.viable);
  CHECK_FALSE(gpu.attributes.at("compute_capability").empty());
  const auto& link = node->capabilities->links.at(0);
  CHECK(link.name == "tcp");
  CHECK(link.nics.at(0).name == "lo");
}

TEST_CASE("a GPU whose driver is too old is shown with the reason") {
  CallsFixture f(WithGpus(onecopy::testing::OldFakeCudaPath()));
  const auto node = f.client.GetNode();
  REQUIRE_OK(node);
  const auto& gpu = node->capabilities->memories.at(1);
  CHECK_FALSE(gpu.viability.viable);
  CHECK(gpu.viability.reason == "DRIVER_TOO_OLD");
  CHECK_FALSE(gpu.viability.remedy.empty());
}

TEST_CASE("what this machine has not, but a node may have, is read from its answer") {
  onecopy::v1::Node wire;
  onecopy::v1::Capabilities& capabilities = *wire.mutable_capabilities();
  capabilities.add_memories()->add_direct_peers("GPU-6a");
  onecopy::v1::NicCapability& nic = *capabilities.add_links()->add_nics();
  nic.set_fabric("roce");
  nic.add_memories()->set_kind("cuda");
  capabilities.add_stores()->set_name("posix");
  const onecopy::NodeInfo node = onecopy::client::Read(wire).value();
  CHECK(node.capabilities->memories.at(0).direct_peers == std::vector<std::string>{"GPU-6a"});
  CHECK(node.capabilities->links.at(0).nics.at(0).fabric == "roce");
  CHECK(node.capabilities->links.at(0).nics.at(0).memories.at(0).kind == "cuda");
  CHECK(node.capabilities->stores.at(0).name == "posix");
}

TEST_CASE("a node is probed, and what does not work is told") {
  const auto nics = std::make_shared<onecopy::testing::FakeNics>();
  CallsFixture f([nics](const std::string& node, NodePlan& plan) {
    plan.options.probe_bytes = 256 << 10;
    plan.links.push_back(MakeFakeRdma(MakeTcpLink(node), 2, nics));
  });
  nics->Set([](onecopy::testing::FakeNics::Hooks& hooks) {
    hooks.on_get = [](const onecopy::LaneInfo& lane) -> onecopy::Status {
      if (lane.device == lane.peer_device) return onecopy::OkStatus();
      return {Code::kUnavailable, onecopy::reasons::kNicUnreachable,
              "transport retry counter exceeded"};
    };
  });
  const auto probes = f.client.ProbeNode("west");
  REQUIRE_OK(probes);
  const auto find = [&](const std::string& from, const std::string& to) {
    for (const onecopy::ProbeInfo& probe : *probes) {
      if (probe.node == "west" && probe.source_nic == from && probe.destination_nic == to) {
        return probe;
      }
    }
    FAIL("no probe of " << from << " > " << to);
    return onecopy::ProbeInfo();
  };
  const onecopy::ProbeInfo pair = find("nic0", "nic0");
  CHECK(pair.link == "verbs");
  CHECK(pair.source_memory == "host");
  CHECK(pair.destination_memory == "host");
  CHECK(pair.viability.viable);
  CHECK(pair.bytes_per_second > 0);
  CHECK(pair.latency_seconds > 0);
  CHECK(IsJustNow(pair.time));
  CHECK(pair.expire_time > pair.time);
  const onecopy::ProbeInfo apart = find("nic0", "nic1");
  CHECK_FALSE(apart.viability.viable);
  CHECK(apart.viability.reason == "NIC_UNREACHABLE");
  CHECK(apart.viability.detail.find("transport retry counter exceeded") != std::string::npos);
}

TEST_CASE("a probe between GPUs is read as it was told") {
  onecopy::v1::Probe wire;
  wire.set_node("north");
  wire.set_source_memory("cuda");
  wire.set_source_device("GPU-a");
  wire.set_bytes_per_second(47e9);
  wire.set_latency_seconds(3e-6);
  wire.mutable_time()->set_seconds(1'700'000'000);
  wire.mutable_expire_time()->set_seconds(1'700'000'600);
  const onecopy::ProbeInfo probe = onecopy::client::Read(wire).value();
  CHECK(probe.node == "north");
  CHECK(probe.source_memory == "cuda");
  CHECK(probe.source_device == "GPU-a");
  CHECK(probe.source_nic.empty());
  CHECK(probe.bytes_per_second == 47e9);
  CHECK(probe.latency_seconds == 3e-6);
  CHECK(probe.expire_time - probe.time == std::chrono::minutes(10));
}

TEST_CASE("a device is released and the log level changed") {
  std::string level = "info";
  CallsFixture f([&level](const std::string& node, NodePlan& plan) {
    WithGpus()(node, plan);
    plan.options.set_log_level = [&level](const std::string& now) {
      return std::exchange(level, now);
    };
  });
  REQUIRE_OK(f.client.ReleaseDevice("cuda:0"));
  CHECK(f.client.ReleaseDevice("cuda:9").reason() == onecopy::reasons::kDeviceNotFound);
  const auto previous = f.client.SetLogLevel("debug");
  REQUIRE_OK(previous);
  CHECK(*previous == "info");
  CHECK(level == "debug");
}

TEST_CASE("a state that is newer than the library is unknown, and nothing worse") {
  onecopy::v1::Transfer transfer;
  transfer.set_state(static_cast<onecopy::v1::TransferState>(99));
  transfer.set_role(static_cast<onecopy::v1::TransferRole>(99));
  CHECK(onecopy::client::Read(transfer)->state == onecopy::TransferState::kUnknown);
  CHECK(onecopy::client::Read(transfer)->role == onecopy::TransferRole::kUnknown);
  onecopy::v1::Node node;
  node.set_state(static_cast<onecopy::v1::NodeState>(99));
  CHECK(onecopy::client::Read(node)->state == onecopy::NodeState::kUnknown);
}
}  // namespace calls_test
