// A transfer between two buffers, ordered as a user's program would.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bench/daemons/daemon.h"
#include "bench/measure/mover.h"
#include "onecopy/client.h"

namespace onecopy::bench {

// A buffer of a daemon, whose bytes the bench can write and read by itself: host memory that both
// map, or, for a GPU, a buffer of the daemon's with such a window beside it.
class End {
 public:
  // `memory`: "host" or a GPU's UUID. RESOURCE_EXHAUSTED where there is no room.
  static Result<End> Create(const Daemon& daemon, const std::string& memory, uint64_t bytes);

  Client& client() { return client_; }
  Endpoint endpoint() const { return gpu_ ? *gpu_ : window_.endpoint(); }

  Status Put(uint64_t seed);
  Result<bool> Holds(uint64_t seed);

 private:
  End(Client client, HostBuffer window) : client_(std::move(client)), window_(std::move(window)) {}
  Status Copy(const Endpoint& from, const Endpoint& to);

  Client client_;
  HostBuffer window_;
  std::optional<Endpoint> gpu_;
};

// By exactly this path. `Moved::seconds` are the receipt's, from the first byte submitted to the
// last completion; what the client saw by its own clock, asking and waiting included, is the detail
// client_bytes_per_second.
class TransferMover final : public Mover {
 public:
  TransferMover(End source, End destination, std::string path, std::string link)
      : source_(std::move(source)),
        destination_(std::move(destination)),
        path_(std::move(path)),
        link_(std::move(link)) {}

  Status Fill(uint64_t seed) override { return source_.Put(seed); }
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override { return destination_.Holds(seed); }

 private:
  End source_;
  End destination_;
  const std::string path_;
  const std::string link_;
};

// Which memory of which daemon the bytes leave, and which they reach.
struct Way {
  const Daemon& from;
  std::string from_memory;
  const Daemon& to;
  std::string to_memory;
  std::string path;
  std::string link = {};  // by which; empty: any
};
Result<std::unique_ptr<Mover>> MakeTransfer(const Way& way, uint64_t bytes);

}  // namespace onecopy::bench
