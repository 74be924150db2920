// Buffers, grants and nodes over real sockets.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "client/lib/register_cuda.h"
#include "client/lib/wire.h"
#include "onecopy/client.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/buffer.pb.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/unit/client/fake_daemon.h"
#include "tests/unit/client/temp_dir.h"
#include "transport/os/mapping.h"
#include "transport/shim/cuda.h"

using onecopy::Client;
using onecopy::Code;
using onecopy::testing::FakeDaemon;
using onecopy::testing::TempDir;

namespace os = onecopy::os;

namespace {

struct CallsFixture {
  TempDir dir;
  FakeDaemon daemon;
  Client client;

  explicit CallsFixture(const FakeDaemon::Options& options = {})
      : daemon(dir.path(), options), client(Connect(dir.path())) {}

  static Client Connect(const std::string& run_dir) {
    auto client = Client::Connect({.run_dir = run_dir});
    REQUIRE_OK(client);
    return std::move(*client);
  }
};

}  // namespace

TEST_CASE("a buffer is created, found by name and id, summed and deleted") {
  CallsFixture f;
  const auto made = f.client.CreateBuffer({.name = "a", .bytes = 4096, .memory = "cuda:0"});
  REQUIRE_OK(made);
  CHECK(made->node == "east");
  CHECK(made->name == "a");
  CHECK(made->memory == "cuda");
  CHECK(made->device == "GPU-5f");
  CHECK(made->bytes == 4096);
  CHECK(made->owner == "1000@east");
  CHECK_FALSE(made->registered);
  CHECK(std::chrono::system_clock::to_time_t(made->create_time) == 1'700'000'000);
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
  CHECK(gone.remedy() == "see `onecopy buffer ls`");
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
  FakeDaemon::Options options;
  options.page_size = 3;
  CallsFixture f(options);
  for (int i = 0; i < 10; ++i) f.daemon.AddBuffer("west", "b" + std::to_string(i), 1);
  const auto buffers = f.client.ListBuffers("west");
  REQUIRE_OK(buffers);
  REQUIRE(buffers->size() == 10);
  CHECK(buffers->back().name == "b9");
  const auto none = f.client.ListBuffers();
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
    CHECK(f.daemon.Bytes("east", "window").substr(9990, 9) == "here I am");
    CHECK(buffer->endpoint(5, 7).ToString() == "east:" + buffer->info().id + "@5+7");
    onecopy::HostBuffer moved = std::move(*buffer);
    CHECK(f.daemon.buffer_count() == 1);
    REQUIRE_OK(moved.Close());
    CHECK(f.daemon.buffer_count() == 0);
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
  CHECK(f.daemon.Bytes("east", "mine").substr(0, 4) == "tail");
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

TEST_CASE("GPU memory is registered in the form in which it can be shared") {
  CallsFixture f;
  const onecopy::client::RunDir run_dir = {f.dir.path(), {f.dir.path()}};
  auto attach = onecopy::client::AttachSocket::Connect(run_dir, "test", std::chrono::seconds(5));
  REQUIRE_OK(attach);
  onecopy::shim::CudaExport exported;
  exported.device_uuid = "GPU-5f";
  exported.offset = 512;
  onecopy::v1::RegisterBufferRequest request;
  SECTION("an IPC handle") {
    exported.form = "cuda-ipc";
    exported.handle = std::string(64, 'h');
    REQUIRE_OK(onecopy::client::AddCuda(*attach, exported, request));
    CHECK(request.cuda_ipc().handle() == exported.handle);
    CHECK(request.cuda_ipc().offset_bytes() == 512);
    CHECK(request.cuda_ipc().device() == "GPU-5f");
  }
  SECTION("a descriptor") {
    auto fd = os::SealedMemfd("stands for an allocation", 4096);
    REQUIRE_OK(fd);
    exported.form = "cuda-vmm";
    exported.fd = std::move(*fd);
    exported.allocation_bytes = 4096;
    REQUIRE_OK(onecopy::client::AddCuda(*attach, exported, request));
    CHECK(request.cuda_vmm().fd_handle() > 0);
    CHECK(request.cuda_vmm().offset_bytes() == 512);
    CHECK(request.cuda_vmm().allocation_bytes() == 4096);
    CHECK(request.cuda_vmm().device() == "GPU-5f");
  }
  SECTION("a form that is not known") {
    exported.form = "cuda-fabric";
    CHECK(onecopy::client::AddCuda(*attach, exported, request).code() == Code::kInternal);
  }
}

TEST_CASE("a pointer that is no GPU memory is not registered, with the reason") {
  CallsFixture f;
  int on_the_stack = 0;
  const onecopy::Status status =
      f.client.RegisterCuda("x", reinterpret_cast<uintptr_t>(&on_the_stack), sizeof on_the_stack)
          .status();
  // NOT_SHAREABLE where there is a driver, else the reason why there is none.
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK_FALSE(status.reason().empty());
  CHECK(f.daemon.buffer_count() == 0);
}

TEST_CASE("GPU memory is exported by the driver that the client names") {
  const TempDir dir;
  FakeDaemon daemon(dir.path(), {});
  const auto api = onecopy::shim::LoadCuda(onecopy::testing::FakeCudaPath());
  REQUIRE_OK(api);
  CUcontext context = nullptr;
  REQUIRE((*api)->DevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  const CUdeviceptr memory = onecopy::testing::FakeCudaFunction<FakeCudaAllocate>(
      "fakeCudaAllocate")(FAKE_CUDA_LEGACY, 0, 4096, 0);
  auto client =
      Client::Connect({.run_dir = dir.path(), .cuda_library = onecopy::testing::FakeCudaPath()});
  REQUIRE_OK(client);
  REQUIRE_OK(client->RegisterCuda("x", memory, 4096));
  CHECK(daemon.buffer_count() == 1);
  auto other = Client::Connect({.run_dir = dir.path(), .cuda_library = "/nonexistent/libcuda.so"});
  REQUIRE_OK(other);
  const onecopy::Status status = other->RegisterCuda("y", memory, 4096).status();
  CHECK(status.reason() == onecopy::reasons::kNoDriver);
  CHECK(status.message().find("/nonexistent/libcuda.so") != std::string::npos);
  (*api)->DevicePrimaryCtxRelease(0);
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
  CHECK(std::chrono::system_clock::to_time_t(*grant->expire_time) == 1'700'003'600);
  const auto listed = f.client.ListGrants("a");
  REQUIRE_OK(listed);
  REQUIRE(listed->size() == 1);
  CHECK(listed->front().id == grant->id);
  REQUIRE_OK(f.client.DeleteGrant(grant->id));
  CHECK(f.client.DeleteGrant(grant->id).reason() == onecopy::reasons::kGrantNotFound);
}

TEST_CASE("nodes are listed, and shown with all that they can do") {
  FakeDaemon::Options options;
  options.page_size = 1;
  CallsFixture f(options);
  const auto nodes = f.client.ListNodes();
  REQUIRE_OK(nodes);
  REQUIRE(nodes->size() == 2);
  CHECK(nodes->front().self);
  CHECK(nodes->back().state == onecopy::NodeState::kDisconnected);
  CHECK(nodes->back().reason == "PEER_DOWN");
  CHECK_FALSE(nodes->back().capabilities.has_value());

  const auto node = f.client.GetNode();
  REQUIRE_OK(node);
  CHECK(node->name == "east");
  CHECK(node->uid_domain == "lab");
  CHECK(node->protocol_max == 2);
  REQUIRE(node->capabilities.has_value());
  const auto& gpu = node->capabilities->memories.at(0);
  CHECK(gpu.ordinal == 0);
  CHECK(gpu.direct_peers == std::vector<std::string>{"GPU-6a"});
  CHECK(gpu.viability.reason == "DRIVER_TOO_OLD");
  CHECK(gpu.attributes.at("compute_capability") == "9.0");
  const auto& link = node->capabilities->links.at(0);
  CHECK(link.nics.at(0).fabric == "loopback");
  CHECK(link.nics.at(0).memories.at(0).kind == "host");
  CHECK(node->capabilities->stores.at(0).name == "posix");
}

TEST_CASE("a node is probed") {
  CallsFixture f;
  const auto probes = f.client.ProbeNode("north");
  REQUIRE_OK(probes);
  REQUIRE(probes->size() == 2);
  const onecopy::ProbeInfo& all = probes->front();
  CHECK(all.node == "north");
  CHECK(all.link == "verbs");
  CHECK(all.source_memory == "cuda");
  CHECK(all.source_device == "GPU-a");
  CHECK(all.destination_memory == "host");
  CHECK(all.source_nic.empty());
  CHECK(all.viability.viable);
  CHECK(all.bytes_per_second == 47e9);
  CHECK(all.latency_seconds == 3e-6);
  CHECK(all.expire_time - all.time == std::chrono::minutes(10));
  CHECK(probes->back().destination_nic == "mlx5_1");
  CHECK(probes->back().viability.detail == "transport retry counter exceeded");
}

TEST_CASE("a device is released and the log level changed") {
  CallsFixture f;
  REQUIRE_OK(f.client.ReleaseDevice("cuda:0"));
  CHECK(f.client.ReleaseDevice("cuda:9").reason() == onecopy::reasons::kDeviceNotFound);
  const auto previous = f.client.SetLogLevel("debug");
  REQUIRE_OK(previous);
  CHECK(*previous == "info");
  CHECK(f.daemon.last_level() == "debug");
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
