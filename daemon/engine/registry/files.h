// Files that clients have opened, as ends of their transfers.
#pragma once

#include <memory>

#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/sessions.h"
#include "transport/core/contracts/store.h"

namespace onecopy::engine {

// Engine thread. A file is a buffer without a name in any list, for one transfer: it goes with its
// last user, or with its client.
class Files {
 public:
  Files(Context& context, Sessions& sessions, Buffers& buffers)
      : context_(context), sessions_(sessions), buffers_(buffers) {}

  static bool HasFile(const TransferRequest& request) {
    return request.source.fd_handle != 0 || request.destination.fd_handle != 0;
  }

  // The request, with the end that is a file named as a buffer. Takes the descriptors, whatever
  // comes of it. BAD_ENDPOINT where both ends are files, or that end is of another node; fails also
  // as Sessions::Take and Store::Open.
  void Open(const Principal& who, TransferRequest request, Reply<TransferRequest> reply);
  // The transfer has begun, or, where another node has a file read, ended; or was refused: a
  // file that no transfer holds is released.
  void Settle(const TransferRequest& opened);

 private:
  // What is under way until the stores have answered.
  struct Opening {
    Principal who;
    TransferRequest request;
    bool reads = false;
    bool kept = false;  // until its transfer has ended, and not only begun
    Reply<TransferRequest> reply;
    OpenFileRequest asked;
    std::shared_ptr<StoreFile> file;
  };

  Status Check(const TransferRequest& request) const;
  void OpenDirect(const std::shared_ptr<Opening>& opening, Store& direct);
  void Take(Opening& opening, std::shared_ptr<const DirectWay> way);

  Context& context_;
  Sessions& sessions_;
  Buffers& buffers_;
};

}  // namespace onecopy::engine
