#include "client/lib/session/connection.h"
#include "onecopy/client.h"

namespace onecopy {

const std::string& Client::node() const { return connection_->node(); }
std::string Client::daemon_version() const { return connection_->daemon_version(); }
SessionInfo Client::session() const {
  // A child's copy of the lock may be held for ever.
  return connection_->CheckProcess().ok() ? connection_->registrations().info() : SessionInfo();
}
const std::string& Client::run_dir() const { return connection_->run_dir(); }

}  // namespace onecopy
