#include <utility>

#include "client/lib/session/connection.h"
#include "client/lib/transfers/async_loop.h"
#include "onecopy/client.h"

namespace onecopy {

Client::Client(std::shared_ptr<client::Connection> connection)
    : connection_(std::move(connection)), loop_(std::make_shared<client::AsyncLoop>(connection_)) {}

Client::Client(Client&&) noexcept = default;

Client& Client::operator=(Client&& other) noexcept {
  // The other's destructor ends what this one had.
  std::swap(connection_, other.connection_);
  std::swap(loop_, other.loop_);
  return *this;
}

Client::~Client() {
  if (loop_ != nullptr) client::AsyncLoop::End(std::move(loop_));
}

Result<Client> Client::Connect(const ConnectOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(auto connection, client::Connection::Open(options));
  return Client(std::move(connection));
}

}  // namespace onecopy
