#include "client/nixl/session.h"

#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::nixl {

Session::Session(std::shared_ptr<Client> client, Restore restore)
    : client_(std::move(client)),
      restore_(std::move(restore)),
      number_(client_->session().number) {}

Result<std::unique_ptr<Session>> Session::Open(const ConnectOptions& options, Restore restore) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, Client::Connect(options));
  auto shared = std::make_shared<Client>(std::move(client));
  ONECOPY_RETURN_IF_ERROR(restore(*shared));
  return std::unique_ptr<Session>(new Session(std::move(shared), std::move(restore)));
}

Result<std::shared_ptr<Client>> Session::Get() {
  const MutexLock lock(mutex_);
  const uint64_t doubts = doubts_;
  if (doubts == settled_) return client_;
  ONECOPY_RETURN_IF_ERROR(client_->Ping());  // connects again
  const uint64_t number = client_->session().number;
  if (number != number_) {
    ONECOPY_RETURN_IF_ERROR(restore_(*client_));
    number_ = number;
  }
  settled_ = doubts;
  return client_;
}

Status Session::Note(Status status) {
  const std::string& reason = status.reason();
  if (reason == reasons::kDaemonUnreachable || reason == reasons::kSessionLost ||
      reason == reasons::kBufferLost) {
    ++doubts_;
  }
  return status;
}

}  // namespace onecopy::nixl
