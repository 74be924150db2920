// The transient host buffers of one file copy, and the transfers that they take part in.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/calls/waiter.h"
#include "onecopy/client.h"
#include "onecopy/file_copy.h"
#include "transport/digest/tree.h"

namespace onecopy::client {

// Used by one thread, in which every method blocks.
class Windows {
 public:
  struct Window {
    HostBuffer memory;
    uint64_t bytes = 0;                 // of the transfer that was started last
    std::optional<TransferId> running;  // until it was waited for
  };

  // What is copied.
  struct Copy {
    Endpoint source;  // one of the two names the file
    Endpoint destination;
    std::optional<uint64_t> bytes;  // if that is known
  };

  // Windows of `bytes` each (at least one byte). The copy is one transfer from here on.
  static Result<std::unique_ptr<Windows>> Open(Client& client, const FileCopyOptions& options,
                                               std::unique_ptr<Waiter> waiter, const Copy& copy,
                                               uint64_t bytes);

  // Transfers that still run are cancelled, and waited for.
  ~Windows() { Cancel(); }

  // Used in turn: the first, the second, …, the first again.
  Window& Next() { return windows_[turn_++ % windows_.size()]; }
  size_t count() const { return windows_.size(); }

  const Waiter& waiter() const { return *waiter_; }

  // Starts a transfer of `bytes` between the window's beginning and `remote`.
  Status StartFrom(Window& window, const Endpoint& remote, uint64_t bytes);
  Status StartInto(Window& window, const Endpoint& remote, uint64_t bytes);

  // Waits for the window's transfer, if one runs. True if one ran.
  Result<bool> Finish(Window& window);

  // To be told how much of the payload is where it should be: in the buffer, or in the file.
  void Progress(uint64_t bytes_done);

  // What has been done. Everything must have been waited for.
  Result<FileCopy> Complete();

  // Cancels and waits for what still runs, and ends the copy for this reason, which is returned
  // with what had arrived before it.
  Status Fail(const Status& why);

  uint64_t bytes_done() const { return bytes_done_; }

 private:
  Windows(Client& client, const FileCopyOptions& options, std::unique_ptr<Waiter> waiter,
          std::optional<uint64_t> total);
  void Cancel();
  Status Start(Window& window, Endpoint source, Endpoint destination, uint64_t bytes);

  Client& client_;
  const FileCopyOptions& options_;
  const std::unique_ptr<Waiter> waiter_;
  const std::optional<uint64_t> total_;
  std::vector<Window> windows_;
  size_t turn_ = 0;
  uint64_t bytes_done_ = 0;
  std::optional<digest::TreeHasher> digest_;
  FileCopy sum_;
};

// The end of a copy that is a file, as lists of transfers show it.
Endpoint FileEnd(const Client& client, const LocalFile& file);

// Whether a part moved these bytes, by its receipt. DATA_LOSS (CHECKSUM_MISMATCH) where it moved
// others; UNIMPLEMENTED where the daemon has not looked.
Status VerifyPart(const Receipt& receipt, const std::byte* data, uint64_t bytes);

// What the client itself does: file to window, or window to file.
Step ClientStep(const std::string& node, bool reads_file);

}  // namespace onecopy::client
