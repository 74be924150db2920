#include "daemon/keep/keeper.h"

#include <sys/socket.h>

#include <utility>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/os/helper_process.h"

namespace onecopy::keep {
namespace {

constexpr char kLost[] = "buffers will not survive a restart of the daemon";

}  // namespace

Result<std::unique_ptr<Keeper>> Keeper::Open(Options options) {
  std::unique_ptr<Keeper> keeper(new Keeper(std::move(options)));
  Result<HolderLink> link = keeper->Connect();
  if (link.ok()) {
    ONECOPY_RETURN_IF_ERROR(keeper->Adopt(std::move(*link)));
    return keeper;
  }
  if (link.status().code() != Code::kUnavailable) return link.status();
  ONECOPY_ASSIGN_OR_RETURN(keeper->journal_, Journal::Make());
  const MutexLock lock(keeper->mutex_);
  (void)keeper->Lose(link.status());
  return keeper;
}

Result<HolderLink> Keeper::Connect() const {
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

Status Keeper::Adopt(HolderLink link) {
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

Keeper::Left Keeper::TakeLeft() { return {journal_->records(), std::move(left_)}; }

// The descriptor stays until Renew, as an event loop may watch it.
Status Keeper::Lose(const Status& why) {
  if (link_) ::shutdown(link_->fd(), SHUT_RDWR);
  lost_ = why;
  log::Error(kLost, {{"holder", options_.socket}, {"why", why.ToString()}});
  return why;
}

Status Keeper::Hold(uint64_t number, int fd) {
  const MutexLock lock(mutex_);
  if (!lost_.ok()) return lost_;
  const Status held = link_->Hold(number, fd);
  return held.ok() || held.code() == Code::kResourceExhausted ? held : Lose(held);
}

void Keeper::Release(uint64_t number) {
  const MutexLock lock(mutex_);
  if (!lost_.ok()) return;
  const Status released = link_->Release(number);
  if (!released.ok()) (void)Lose(released);
}

Status Keeper::Renew() {
  ONECOPY_ASSIGN_OR_RETURN(HolderLink link, Connect());
  // Another one's, or this daemon's from before: the engine holds anew what still counts.
  ONECOPY_RETURN_IF_ERROR(link.ReleaseAll());
  ONECOPY_RETURN_IF_ERROR(link.Hold(kRecords, journal_->fd()));
  const MutexLock lock(mutex_);
  link_ = std::move(link);
  lost_ = OkStatus();
  log::Info("buffers survive a restart of the daemon again", {{"holder", options_.socket}});
  return OkStatus();
}

int Keeper::lost_fd() const {
  const MutexLock lock(mutex_);
  return link_ ? link_->fd() : -1;
}

Status Keeper::Put(const std::string& key, const std::string& value, bool minor) {
  return journal_->Put(key, value, minor);
}

void Keeper::Erase(const std::string& key) { journal_->Erase(key); }

}  // namespace onecopy::keep
