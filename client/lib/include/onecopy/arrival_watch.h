// Reports what arrives in the caller's buffers.
#pragma once

#include "onecopy/language.h"  // first

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>

#include "onecopy/arrival.h"
#include "onecopy/result.h"

namespace onecopy {

class Client;

namespace client {
class ArrivalStream;
class Connection;
}  // namespace client

// Move-only; made by Client::WatchArrivals. Keeps the client's connection alive. Thread-safe,
// except that you must not move or destroy it while another thread uses it. Each arrival goes to
// one call. The library's threads receive in the background.
//
// When the next call begins, or at Close, the library acknowledges the arrivals that the last call
// returned. If a buffer keeps arrivals, those that are not acknowledged go to the buffer's next
// watch. So a caller that handles arrivals before it asks for more loses none. After a crash, it
// may see some twice, with the same Arrival::sequence.
//
// In a forked child of the process that made it, every call fails with FAILED_PRECONDITION
// (FORKED), and its destructor leaves the watch to the parent.
class ArrivalWatch {
 public:
  ArrivalWatch(ArrivalWatch&&) noexcept = default;
  ArrivalWatch& operator=(ArrivalWatch&&) noexcept;
  ~ArrivalWatch();  // ends the watch; does not acknowledge what the last call returned

  // The arrivals that no call has returned yet, at most `most`; none if there are none. Does not
  // call the daemon, and takes about as long as a mutex. If there are none left and no more can
  // come, fails like Wait: NOT_FOUND (BUFFER_NOT_FOUND) if the buffer was removed, ABORTED
  // (OWNER_DIED) if the client that registered it has ended, UNAVAILABLE (DAEMON_UNREACHABLE) if
  // the daemon has ended.
  Result<ArrivalBatch> Poll(size_t most = SIZE_MAX);

  // Like Poll, but blocks until something has arrived. CANCELLED after a requested stop,
  // DEADLINE_EXCEEDED after `limit`; no arrival is lost then.
  Result<ArrivalBatch> Wait(std::stop_token stop = {},
                            std::optional<std::chrono::milliseconds> limit = {},
                            size_t most = SIZE_MAX);

  // Acknowledges all returned arrivals and ends the watch: every later call fails. Blocks until the
  // daemon has answered; fails if it has not.
  Status Close();

 private:
  friend class Client;
  ArrivalWatch(std::shared_ptr<client::Connection> connection,
               std::shared_ptr<client::ArrivalStream> stream);
  void End();

  std::shared_ptr<client::Connection> connection_;
  std::shared_ptr<client::ArrivalStream> stream_;  // destroyed before the connection
};

}  // namespace onecopy
