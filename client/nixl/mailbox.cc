#include "client/nixl/mailbox.h"

#include <chrono>
#include <iterator>
#include <utility>

#include "client/nixl/grants.h"
#include "client/nixl/names.h"
#include "client/nixl/outcome.h"
#include "onecopy/reasons.h"
#include "transport/os/threads/signals_blocked.h"

namespace onecopy::nixl {
namespace {

constexpr uint64_t kMailboxBytes = 4096;  // of which none is ever written
// So many can wait to be taken; further senders are refused (QUOTA).
constexpr size_t kMostWaiting = 65'536;
// Between two looks whether a daemon that has gone is back.
constexpr std::chrono::milliseconds kPause(100);

}  // namespace

Mailbox::Mailbox(std::string agent, std::vector<std::string> grant_to)
    : agent_(std::move(agent)), name_(RandomName()), grant_to_(std::move(grant_to)) {}

Mailbox::~Mailbox() { Close(); }

void Mailbox::Close() {
  receiver_ = std::jthread();
  if (memory_) static_cast<void>(memory_->Close());
}

Status Mailbox::Open(Session& session) {
  session_ = &session;
  ONECOPY_ASSIGN_OR_RETURN(const std::shared_ptr<Client> client, session.Get());
  auto made = client->CreateHostBuffer(name_, kMailboxBytes, HostPages::kWhenTouched);
  ONECOPY_RETURN_IF_ERROR(made.status());
  memory_.emplace(std::move(*made));
  ONECOPY_RETURN_IF_ERROR(Restore(*client));
  // Watched before any agent learns its name.
  auto watch = client->WatchArrivals(name_);
  ONECOPY_RETURN_IF_ERROR(watch.status());
  const os::SignalsBlocked blocked;
  receiver_ = std::jthread([this, first = std::make_shared<ArrivalWatch>(std::move(*watch))](
                               std::stop_token stop) mutable { Receive(stop, std::move(first)); });
  return OkStatus();
}

Status Mailbox::Restore(Client& client) const {
  return memory_ ? GrantTo(client, name_, grant_to_) : OkStatus();
}

Status Mailbox::Send(Client& client, const AgentPlace& to, const std::string& text) {
  ONECOPY_ASSIGN_OR_RETURN(
      const std::vector<std::string> messages,
      SplitNote(agent_, name_ + "-" + std::to_string(sent_.fetch_add(1)), text));
  for (const std::string& message : messages) {
    ONECOPY_RETURN_IF_ERROR(client.SendMessage(
        {.destination = {.node = to.node, .buffer = to.mailbox}, .message = message}));
  }
  return OkStatus();
}

void Mailbox::Take(abi::Notifications& out) {
  const MutexLock lock(mutex_);
  out.insert(out.end(), std::make_move_iterator(waiting_.begin()),
             std::make_move_iterator(waiting_.end()));
  waiting_.clear();
  changed_.NotifyAll();
}

void Mailbox::Receive(const std::stop_token& stop, std::shared_ptr<ArrivalWatch> watch) {
  const std::stop_callback on_stop(stop, [this] {
    const MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  while (!stop.stop_requested()) {
    if (watch != nullptr) {
      static_cast<void>(session_->Note(ReceiveOn(*watch, stop)));
      watch = nullptr;
      continue;
    }
    const auto client = session_->Get();
    auto next = client ? (*client)->WatchArrivals(name_) : Result<ArrivalWatch>(client.status());
    if (next) {
      watch = std::make_shared<ArrivalWatch>(std::move(*next));
    } else {
      static_cast<void>(session_->Note(next.status()));
      Pause(stop);
    }
  }
}

Status Mailbox::ReceiveOn(ArrivalWatch& watch, const std::stop_token& stop) {
  while (true) {
    ONECOPY_ASSIGN_OR_RETURN(ArrivalBatch batch, watch.Wait(stop));
    MutexLock lock(mutex_);
    for (const Arrival& arrival : batch.arrivals) {
      if (auto note = reader_.Add(arrival.message)) waiting_.push_back(std::move(*note));
    }
    while (waiting_.size() >= kMostWaiting && !stop.stop_requested()) changed_.Wait(mutex_);
  }
}

void Mailbox::Pause(const std::stop_token& stop) {
  const auto until = std::chrono::steady_clock::now() + kPause;
  const MutexLock lock(mutex_);
  while (!stop.stop_requested() && changed_.WaitUntil(mutex_, until)) {
  }
}

}  // namespace onecopy::nixl
