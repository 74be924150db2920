// attach.sock: the kernel says which user a client is, and a client's connection is its session.
// The protocol is in proto/onecopy/v1/attach.proto.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/api/mapping_api.h"
#include "daemon/engine/api/ring_api.h"
#include "daemon/engine/api/slab_api.h"
#include "daemon/engine/base/turns.h"
#include "daemon/engine/registry/sessions.h"
#include "onecopy/result.h"
#include "transport/core/base/executor.h"
#include "transport/os/machine/namespace_names.h"

namespace onecopy::attach {

struct Options {
  std::string path;     // of the socket; a stale one is replaced (see RunDir)
  std::string node;     // told to clients, as is the version
  std::string version;  // of the daemon's program
  // Whether clients may pass descriptors of files, to be read and written by the daemon.
  bool files = false;
  // Likewise: whether a network device of this node may want dma-bufs of clients' GPU memory.
  bool takes_dma_bufs = true;
  // Likewise: whether buffers outlive the daemon's process.
  bool keeps_buffers = false;
  // Connections. Where there are more, the oldest that has not said Hello has to go; where there is
  // none such, the newest.
  size_t most_per_uid = 1024;
  // Likewise of those that have not said Hello, whoever's.
  size_t most_new = 2048;
  // How long a connection may take to say Hello.
  std::chrono::milliseconds hello_timeout{10000};
  // What clients' namespaces are called, at every socket of this daemon.
  std::shared_ptr<os::NamespaceNames> namespace_names = std::make_shared<os::NamespaceNames>();
  // Hears, on the thread `attach`, what keeps clients from attaching.
  std::function<void(const Status&)> report;
};

// Serves on a thread of its own, `attach`, which never waits for a client: one that does not read
// its replies loses its connection. A session ends with its connection: at the client's
// end-of-file, on an error in the protocol, or when the client's process ends, though a child of it
// may still hold the socket.
class AttachServer {
 public:
  // `sessions`, `rings`, `slabs` and `mappings` are used on `engine` alone. All must outlive the
  // tasks that are posted to `engine`, the last of them by Stop. Without `rings`, `slabs`, or
  // `mappings`, clients are told that there are none.
  static Result<std::unique_ptr<AttachServer>> Start(Options options, engine::Turns engine,
                                                     engine::Sessions& sessions,
                                                     engine::RingApi* rings = nullptr,
                                                     engine::SlabApi* slabs = nullptr,
                                                     engine::MappingApi* mappings = nullptr);
  ~AttachServer();
  AttachServer(const AttachServer&) = delete;
  AttachServer& operator=(const AttachServer&) = delete;

  // Any thread but `attach`: takes no more clients, removes the socket, posts the end of every
  // session and joins the thread. Safe to repeat.
  void Stop();

 private:
  class Core;
  explicit AttachServer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace onecopy::attach
