#include "daemon/holder_client/holder_client.h"

#include <sys/socket.h>

#include <utility>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/os/threads/helper_process.h"

namespace onecopy::holder {
namespace {

constexpr char kLost[] = "buffers will not survive a restart of the daemon";

}  // namespace

Result<std::unique_ptr<HolderClient>> HolderClient::Open(Options options) {
  std::unique_ptr<HolderClient> client(new HolderClient(std::move(options)));
  Result<HolderLink> link = client->Connect();
  if (link.ok()) {
    ONECOPY_RETURN_IF_ERROR(client->Adopt(std::move(*link)));
    return client;
  }
  if (link.status().code() != Code::kUnavailable) return link.status();
  ONECOPY_ASSIGN_OR_RETURN(client->journal_, Journal::Make());
  const MutexLock lock(client->mutex_);
  (void)client->Lose(link.status());
  return client;
}

Result<HolderLink> HolderClient::Connect() const {
  const auto connect = [this] {
    return HolderLink::Connect(options_.socket, options_.hold_for, options_.busy_patience);
  };
  Result<HolderLink> link = connect();
  if (link.ok() || link.status().code() != Code::kUnavailable || options_.program.empty()) {
    return link;
  }
  os::HelperRequest start;
  start.arguments = options_.program;
  ONECOPY_ASSIGN_OR_RETURN(const os::HelperOutcome outcome, os::RunHelper(start));
  if (!outcome.succeeded()) {
    return Status(
        Code::kUnavailable, reasons::kNotServed,
        options_.program.front() + " " + outcome.Describe(start.limit) + ": " + outcome.errors);
  }
  return connect();
}

Status HolderClient::Adopt(HolderLink link) {
  ONECOPY_ASSIGN_OR_RETURN(auto all, link.TakeAll());
  auto records = all.extract(kRecords);
  if (!records.empty()) {
    Result<std::unique_ptr<Journal>> journal = Journal::Open(std::move(records.mapped()));
    if (journal.ok()) {
      journal_ = std::move(*journal);
      if (journal_->unread_bytes() > 0) {
        log::Warning("records of the earlier daemon are damaged",
                     {{"unread_bytes", std::to_string(journal_->unread_bytes())},
                      {"so", "buffers and grants that stood there are gone"}});
      }
    } else {
      log::Warning("the buffers of the earlier daemon are gone",
                   {{"buffers", std::to_string(all.size())}, {"why", journal.status().ToString()}});
    }
  }
  if (journal_ == nullptr) {
    ONECOPY_RETURN_IF_ERROR(link.ReleaseAll());
    all.clear();
    ONECOPY_ASSIGN_OR_RETURN(journal_, Journal::Make());
    ONECOPY_RETURN_IF_ERROR(link.Hold(kRecords, journal_->fd()));
  }
  left_ = std::move(all);
  const MutexLock lock(mutex_);
  link_ = std::move(link);
  return OkStatus();
}

HolderClient::Left HolderClient::TakeLeft() { return {journal_->records(), std::move(left_)}; }

// An event loop may watch the descriptor, so it stays open until Renew.
Status HolderClient::Lose(const Status& why) {
  if (link_) ::shutdown(link_->fd(), SHUT_RDWR);
  lost_ = why;
  log::Error(kLost, {{"holder", options_.socket}, {"why", why.ToString()}});
  return why;
}

Status HolderClient::Hold(uint64_t number, int fd) {
  const MutexLock lock(mutex_);
  if (!lost_.ok()) return lost_;
  const Status held = link_->Hold(number, fd);
  return held.ok() || held.code() == Code::kResourceExhausted ? held : Lose(held);
}

void HolderClient::Release(uint64_t number) {
  const MutexLock lock(mutex_);
  if (!lost_.ok()) return;
  const Status released = link_->Release(number);
  if (!released.ok()) (void)Lose(released);
}

Status HolderClient::Renew() {
  ONECOPY_ASSIGN_OR_RETURN(HolderLink link, Connect());
  // The engine hands over everything that it needs again.
  ONECOPY_RETURN_IF_ERROR(link.ReleaseAll());
  ONECOPY_RETURN_IF_ERROR(link.Hold(kRecords, journal_->fd()));
  const MutexLock lock(mutex_);
  link_ = std::move(link);
  lost_ = OkStatus();
  log::Info("buffers survive a restart of the daemon again", {{"holder", options_.socket}});
  return OkStatus();
}

int HolderClient::lost_fd() const {
  const MutexLock lock(mutex_);
  return link_ ? link_->fd() : -1;
}

Status HolderClient::Put(const std::string& key, const std::string& value, Share share) {
  return journal_->Put(key, value, static_cast<unsigned>(share));
}

void HolderClient::Erase(const std::string& key) { journal_->Erase(key); }

}  // namespace onecopy::holder
