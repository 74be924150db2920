// A daemon in this process, and a client of it.
#pragma once

#include <string>
#include <utility>

#include "onecopy/client.h"
#include "tests/support/catch.h"
#include "tests/support/served_cluster.h"
#include "tests/support/temp_folder.h"

namespace onecopy::testing {

inline Client ConnectTo(const std::string& run_dir, ConnectOptions options = {}) {
  options.run_dir = run_dir;
  auto client = Client::Connect(options);
  REQUIRE_OK(client);
  return std::move(*client);
}

struct ClientFixture {
  explicit ClientFixture(const ServedCluster::Change& change = {},
                         const ConnectOptions& options = {})
      : daemon(dir.path(), change), client(ConnectTo(dir.path(), options)) {}

  // Destroys the client before the daemon.
  void EndClient() { const Client ends = std::move(client); }

  TempFolder dir;
  ServedCluster daemon;
  Client client;
};

// Buffers of the same size: "a" here, and "b" on the node west. By gRPC alone, unless said
// otherwise: the daemon holds nothing that a ring carries.
struct CopyFixture : ClientFixture {
  static constexpr uint64_t kBytes = 4096;

  explicit CopyFixture(const ConnectOptions& options = {.use_ring = false})
      : ClientFixture({}, options) {
    daemon.AddBuffer("east", "a", kBytes);
    daemon.AddBuffer("west", "b", kBytes);
  }

  // From node to node: held where the daemon holds.
  static TransferRequest Over() { return {.source = {"", "a"}, .destination = {"west", "b"}}; }
};

}  // namespace onecopy::testing
