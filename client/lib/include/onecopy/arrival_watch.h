// What arrives in the caller's buffers, as it comes.
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

// Move-only; made by Client::WatchArrivals, whose connection it keeps alive. Thread-safe, except
// for moving and destroying it; each arrival is given to one call. The library's threads receive in
// the background.
//
// What one call has returned counts as dealt with once the next one begins, or Close, and is then
// acknowledged to the daemon by and by. What was not, and was in a buffer that keeps arrivals, is
// told to that buffer's next watch: so a caller that deals with arrivals before asking for more
// loses none, and may see some twice after a crash (they have the same Arrival::sequence).
//
// In a child of the process that made it every call fails with FAILED_PRECONDITION (FORKED), and
// its end leaves the watch to the parent.
class ArrivalWatch {
 public:
  ArrivalWatch(ArrivalWatch&&) noexcept = default;
  ArrivalWatch& operator=(ArrivalWatch&&) noexcept;
  ~ArrivalWatch();  // the watch ends; what the last call returned is not acknowledged

  // What has arrived and was not taken yet, at most so many: nothing, if nothing has. Asks the
  // daemon for nothing, and takes about as long as a mutex. Fails as Wait once there is nothing
  // left and nothing can come: NOT_FOUND (BUFFER_NOT_FOUND) where the buffer was removed, ABORTED
  // (OWNER_DIED) where the client that had registered it has gone,
  // UNAVAILABLE (DAEMON_UNREACHABLE) where the daemon has gone.
  Result<ArrivalBatch> Poll(size_t most = SIZE_MAX);

  // The same, but blocks until there is something. CANCELLED once a stop is requested,
  // DEADLINE_EXCEEDED after `limit`; nothing is lost by either.
  Result<ArrivalBatch> Wait(std::stop_token stop = {},
                            std::optional<std::chrono::milliseconds> limit = {},
                            size_t most = SIZE_MAX);

  // All that was taken is dealt with: acknowledges it, and ends the watch: every other call fails
  // from then on. Blocks until the daemon has answered; fails where it has not.
  Status Close();

 private:
  friend class Client;
  ArrivalWatch(std::shared_ptr<client::Connection> connection,
               std::shared_ptr<client::ArrivalStream> stream);
  void End();

  std::shared_ptr<client::Connection> connection_;
  std::shared_ptr<client::ArrivalStream> stream_;  // goes before the connection
};

}  // namespace onecopy
