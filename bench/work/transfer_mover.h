// A transfer between two buffers, ordered as a user's program would.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/ceiling/gpu.h"
#include "bench/daemons/node.h"
#include "bench/measure/mover.h"
#include "onecopy/client.h"

namespace onecopy::bench {

// GPU memory of this process, to be registered as a buffer.
struct ClientMemory {
  std::shared_ptr<Gpu> gpu;
  GpuMemoryKind kind = GpuMemoryKind::kMalloc;
  uint64_t offset = 0;       // of the registered bytes in the allocation
  std::string cuda_library;  // by which it is exported; empty: the system's
};

// A buffer of a node, whose bytes the bench can write and read by itself: host memory that both
// map, or, for a GPU or another machine, a buffer there with such a window beside it. A buffer that
// was made for it goes with it.
class End {
 public:
  // `memory`: "host", a GPU's UUID, or "process" for ordinary memory of this process.
  // RESOURCE_EXHAUSTED without room; NOT_FOUND if no memory was lent on the other node. `mine`: the
  // buffer is this memory, new.
  static Result<End> Create(const Node& node, const std::string& memory, uint64_t bytes,
                            const std::optional<ClientMemory>& mine = {});

  Client& client() { return *client_; }
  Endpoint endpoint() const { return far_ ? far_->endpoint : window_.endpoint(); }

  Status Put(uint64_t seed);
  Result<bool> Holds(uint64_t seed);
  // All bytes, as they are now.
  Result<std::vector<std::byte>> Read();

 private:
  // A buffer that this process does not map.
  struct Far {
    std::shared_ptr<Client> client;
    std::unique_ptr<GpuMemory> memory;  // that was registered, if any; goes after its buffer
    std::vector<std::byte> own = {};    // likewise
    Endpoint endpoint;
    bool made = false;  // for this End

    Far(std::shared_ptr<Client> its_client, Endpoint its_endpoint, bool was_made)
        : client(std::move(its_client)), endpoint(std::move(its_endpoint)), made(was_made) {}
    ~Far();
    Far(const Far&) = delete;
    Far& operator=(const Far&) = delete;
  };
  End(std::shared_ptr<Client> client, HostBuffer window)
      : client_(std::move(client)), window_(std::move(window)) {}
  Status Copy(const Endpoint& from, const Endpoint& to);
  Status Register(const ClientMemory& mine, uint64_t bytes);

  std::shared_ptr<Client> client_;
  HostBuffer window_;
  std::unique_ptr<Far> far_;  // null: the window itself is the buffer
};

// Which memory of which node the bytes leave, and which they reach.
struct TransferParams {
  Node from;
  std::string from_memory;
  Node to;
  std::string to_memory;
  std::string path;
  std::string link = {};                         // by which; empty: any
  std::optional<ClientMemory> from_client = {};  // instead of a buffer of the daemon's
  std::optional<ClientMemory> to_client = {};

  Policy policy() const { return {.path_glob = path, .link = link}; }
};

// What a plan's refusals say of the first path like this; `planned` where they say nothing.
Status PolicyRefusal(const Status& planned, const std::string& path);

// By exactly this path. `Moved::seconds` are the receipt's, from the first byte submitted to the
// last completion; CPU time is that of both daemons while the client waited, where they are the
// bench's own. What the client saw by its own clock, asking and waiting included, are the details
// client_….
class TransferMover final : public Mover {
 public:
  // RESOURCE_EXHAUSTED without room for the payload.
  static Result<std::unique_ptr<TransferMover>> Create(const TransferParams& params,
                                                       uint64_t bytes);

  // Whether a path of the way's can be taken; else FAILED_PRECONDITION with the reason against the
  // first of them.
  Status Plan();

  Status Fill(uint64_t seed) override { return source_.Put(seed); }
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override { return destination_.Holds(seed); }

 private:
  TransferMover(End source, End destination, const TransferParams& params);
  TransferRequest Request() const;
  std::optional<double> DaemonsCpuSeconds() const;

  End source_;
  End destination_;
  const Policy policy_;
  std::vector<pid_t> daemons_;  // empty: not the bench's own
};

// As TransferMover::Create.
Result<std::unique_ptr<Mover>> MakeTransfer(const TransferParams& params, uint64_t bytes);

}  // namespace onecopy::bench
