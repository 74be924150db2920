#include "daemon/discovery/etcd/etcd.h"

#include <pthread.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "daemon/discovery/etcd/connection.h"
#include "daemon/discovery/etcd/registry.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"
#include "transport/os/machine/machine.h"

namespace onecopy::discovery {
namespace {

using Clock = Connection::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kCall{3'000};
constexpr milliseconds kGoodbye{1'000};  // for all calls by which this node leaves
constexpr milliseconds kPauseMin{100};
constexpr milliseconds kPauseMax{2'000};
// Changes that come within this time are told together.
constexpr milliseconds kTogether{20};
constexpr int64_t kPage = 1000;
constexpr Clock::time_point kNever = Clock::time_point::max();

class Etcd final : public Discovery {
 public:
  Etcd(EtcdOptions options, Sink& sink)
      : options_(std::move(options)),
        sink_(sink),
        // After one without an answer another server still has time to keep the lease.
        call_limit_(std::min(kCall, milliseconds(options_.lease) / 3)),
        own_{options_.node, options_.address, os::RandomHex(16)},
        registry_(options_.prefix, own_),
        thread_([this] { Run(); }) {}

  ~Etcd() override { Leave(); }

  void Leave() override {
    {
      const MutexLock lock(mutex_);
      leaving_ = true;
      changed_.NotifyAll();
      stop_.Stop();  // before the thread hears of it, which makes one more call
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  bool Leaving() {
    const MutexLock lock(mutex_);
    return leaving_;
  }

  void Run() {
    ::pthread_setname_np(::pthread_self(), "discovery");
    milliseconds pause = kPauseMin;
    while (!Leaving()) {
      const Clock::time_point began = Clock::now();
      const Status ended = Session();
      if (Leaving()) break;
      sink_.Failed(ended);
      server_ = (server_ + 1) % options_.servers.size();
      if (Clock::now() - began > kPauseMax) pause = kPauseMin;  // it has worked meanwhile
      Pause(pause);
      pause = std::min(pause * 2, kPauseMax);
    }
    EndLease();
    connection_.reset();
  }

  // Spread by a quarter, so that nodes do not come in step.
  void Pause(milliseconds time) {
    const auto spread = static_cast<uint64_t>(time.count() / 2 + 1);
    const Clock::time_point until =
        Clock::now() + time * 3 / 4 + milliseconds(os::RandomNumber() % spread);
    const MutexLock lock(mutex_);
    while (!leaving_ && Clock::now() < until) changed_.WaitUntil(mutex_, until);
  }

  void EndLease() {
    if (lease_ == 0) return;
    stop_.Resume(CallStop::WallClock::now() + kGoodbye);
    if (connection_ == nullptr) {
      auto opened = Open();
      if (opened.ok()) connection_ = *std::move(opened);
    }
    if (connection_ == nullptr) return;
    if (const Status ended = connection_->Revoke(lease_); !ended.ok()) {
      log::Info("this node's entry stays in etcd until its lease ends",
                {{"why", ended.ToString()}});
    }
  }

  Result<std::unique_ptr<Connection>> Open() {
    return Connection::Open(options_.servers[server_], options_.secrets, call_limit_, stop_);
  }

  // With one server, for as long as that works.
  Status Session() {
    connection_.reset();
    ONECOPY_ASSIGN_OR_RETURN(connection_, Open());
    while (true) {
      // First, as reading may take longer than a lease.
      Status written = HaveLease();
      if (written.code() == Code::kUnavailable) return written;
      ONECOPY_ASSIGN_OR_RETURN(const int64_t revision, ReadAll());
      if (written.ok()) written = WriteOwn();
      // Who may only read, or writes to an etcd that is full, finds the others all the same.
      Tell(written);
      ONECOPY_RETURN_IF_ERROR(written);
      connection_->Watch(options_.prefix, EndOf(options_.prefix), revision + 1);
      ONECOPY_RETURN_IF_ERROR(FollowChanges());
      Pause(kPauseMin);  // changes are gone before they were read, or entries had no room
    }
  }

  // A lease that holds, be it the one from before.
  Status HaveLease() {
    if (lease_ != 0) {
      ONECOPY_ASSIGN_OR_RETURN(const bool alive, connection_->KeepAlive(lease_));
      if (!alive) lease_ = 0;
    }
    if (lease_ == 0) {
      ONECOPY_ASSIGN_OR_RETURN(lease_, connection_->Grant(options_.lease));
      if (lease_ == 0) {
        return {Code::kUnavailable, reasons::kIo, "etcd's answer names no lease"};
      }
    }
    keep_at_ = Clock::now() + milliseconds(options_.lease) / 3;
    return OkStatus();
  }

  // Every entry as of one revision, which it returns.
  Result<int64_t> ReadAll() {
    const Clock::time_point end = Clock::now() + options_.look_limit;
    while (true) {
      etcdserverpb::RangeRequest request;
      Result<int64_t> revision = ReadPages(end, &request);
      const bool compacted = revision.status().code() == Code::kOutOfRange;
      read_at_ = Clock::now();
      if (!compacted || request.revision() == 0) return revision;
      Pause(kPauseMin);  // the next pages would be of a revision that is gone
    }
  }

  Result<int64_t> ReadPages(Clock::time_point end, etcdserverpb::RangeRequest* pages) {
    registry_.Clear();
    etcdserverpb::RangeRequest& request = *pages;
    request.set_key(options_.prefix);
    request.set_range_end(EndOf(options_.prefix));
    int64_t page = kPage;
    for (size_t read = 0; true;) {
      if (Clock::now() >= end) {
        return Status(Code::kUnavailable, reasons::kIo,
                      options_.servers[server_].ToString() + ": reading " + options_.prefix +
                          " has taken longer than " + std::to_string(options_.look_limit.count()) +
                          " ms, for " + std::to_string(read) + " keys",
                      "check etcd's load, and that etcd_prefix has nodes alone");
      }
      if (lease_ != 0 && Clock::now() >= keep_at_) ONECOPY_RETURN_IF_ERROR(HaveLease());
      request.set_limit(page);
      auto answer = connection_->Range(request);
      if (!answer.ok() && answer.status().code() == Code::kResourceExhausted && page > 1) {
        page = std::max<int64_t>(1, page / 8);  // values that are too long for one answer
        continue;
      }
      if (!answer.ok()) return answer.status();
      if (request.revision() == 0) request.set_revision(answer->header().revision());
      for (const etcdserverpb::KeyValue& kv : answer->kvs()) registry_.Put(kv.key(), kv.value());
      read += static_cast<size_t>(answer->kvs_size());
      if (!answer->more() || answer->kvs().empty()) break;
      if (registry_.full() || read >= kMaxKeys) {
        registry_.LeaveOutRest();
        break;
      }
      request.set_key(answer->kvs().rbegin()->key() + std::string(1, '\0'));
    }
    return request.revision();
  }

  // Writes this node's entry if its name is free; else claims it.
  Status WriteOwn() {
    using Holder = Registry::Holder;
    const Holder holder = registry_.holder();
    if (holder == Holder::kThis && entry_lease_ == lease_) {
      ONECOPY_RETURN_IF_ERROR(Unclaim());
      return OkStatus();
    }
    const std::string key = NodeKey(options_.prefix, own_.name);
    etcdserverpb::TxnRequest request;
    etcdserverpb::Compare& compare = *request.add_compare();
    compare.set_key(key);
    compare.set_target(etcdserverpb::Compare::CREATE);
    compare.set_create_revision(0);
    request.add_failure()->mutable_request_range()->set_key(key);
    *request.add_success()->mutable_request_put() = OwnPut(key);
    ONECOPY_ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse first, connection_->Transact(request));
    if (first.succeeded()) return Written();
    if (first.responses().empty() || first.responses(0).response_range().kvs().empty()) {
      return {Code::kUnavailable, reasons::kIo, "etcd's answer to a transaction makes no sense"};
    }
    const etcdserverpb::KeyValue& there = first.responses(0).response_range().kvs(0);
    registry_.Put(there.key(), there.value());
    if (registry_.holder() == Holder::kOther) return Claim();
    if (registry_.holder() == Holder::kEarlier && registered_) {
      // Written by a daemon that lives: this one's entry was replaced while it was kept alive.
      return Claim();
    }
    compare.set_target(etcdserverpb::Compare::MOD);
    compare.set_mod_revision(there.mod_revision());
    ONECOPY_ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse second,
                             connection_->Transact(request));
    if (second.succeeded()) return Written();
    retry_at_ = Clock::now() + kPauseMin;  // somebody else was faster
    return OkStatus();
  }

  etcdserverpb::PutRequest OwnPut(const std::string& key) const {
    etcdserverpb::PutRequest put;
    put.set_key(key);
    put.set_value(PrintValue(own_));
    put.set_lease(lease_);
    return put;
  }

  Status Written() {
    registry_.Put(NodeKey(options_.prefix, own_.name), PrintValue(own_));
    entry_lease_ = lease_;
    taken_ = false;
    if (!std::exchange(registered_, true)) {
      log::Info("this node's address is in etcd",
                {{"key", NodeKey(options_.prefix, own_.name)},
                 {"address", own_.address},
                 {"server", options_.servers[server_].ToString()}});
    }
    return Unclaim();
  }

  Status Claim() {
    if (!std::exchange(taken_, true)) {
      taken_since_ = Clock::now();
      log::Info(
          "another entry in etcd has this node's name: this node waits until that entry ends",
          {{"name", own_.name}, {"this", own_.address}, {"other", registry_.held_by().address}});
    }
    retry_at_ = Clock::now() + options_.lease;
    if (claimed_lease_ == lease_) return OkStatus();
    etcdserverpb::TxnRequest request;
    *request.add_success()->mutable_request_put() =
        OwnPut(ClaimKey(options_.prefix, own_.name, own_.instance));
    ONECOPY_RETURN_IF_ERROR(connection_->Transact(request).status());
    claimed_lease_ = lease_;
    return OkStatus();
  }

  Status Unclaim() {
    retry_at_ = kNever;
    if (std::exchange(claimed_lease_, 0) == 0) return OkStatus();
    etcdserverpb::TxnRequest request;
    request.add_success()->mutable_request_delete_range()->set_key(
        ClaimKey(options_.prefix, own_.name, own_.instance));
    return connection_->Transact(request).status();
  }

  // Until the watch is lost: OK where all has to be read again.
  Status FollowChanges() {
    tell_at_ = kNever;
    while (true) {
      ONECOPY_ASSIGN_OR_RETURN(const auto change,
                               connection_->NextChange(std::min({keep_at_, retry_at_, tell_at_})));
      if (Leaving()) return {Code::kCancelled, reasons::kCancelled, "the daemon ends"};
      if (change && change->compact_revision() != 0) return OkStatus();
      if (change && change->canceled()) {
        return {Code::kUnavailable, reasons::kIo,
                options_.servers[server_].ToString() +
                    ": the watch was ended: " + change->cancel_reason(),
                "check that etcd has a leader, and the role of etcd_user"};
      }
      if (change) Take(*change);
      ONECOPY_RETURN_IF_ERROR(DoWhatIsDue());
      if (registry_.MissesSome() && Clock::now() >= read_at_ + options_.look_again) {
        return OkStatus();
      }
    }
  }

  void Take(const etcdserverpb::WatchResponse& change) {
    for (const etcdserverpb::Event& event : change.events()) {
      if (event.type() == etcdserverpb::Event::DELETE) {
        registry_.Delete(event.kv().key());
      } else {
        registry_.Put(event.kv().key(), event.kv().value());
      }
    }
    if (change.events().empty()) return;
    tell_at_ = std::min(tell_at_, Clock::now() + kTogether);
    // Free for this node; or another one has written over its entry.
    const Registry::Holder holder = registry_.holder();
    const bool lost = holder != Registry::Holder::kThis && registered_ && !taken_;
    if (holder == Registry::Holder::kNone || lost) retry_at_ = Clock::now();
  }

  Status DoWhatIsDue() {
    const Clock::time_point now = Clock::now();
    bool tell = now >= tell_at_;
    if (now >= keep_at_) {
      const int64_t before = lease_;
      ONECOPY_RETURN_IF_ERROR(HaveLease());
      if (lease_ != before) retry_at_ = now;
      tell = true;
    }
    if (now >= retry_at_) {
      retry_at_ = kNever;
      ONECOPY_RETURN_IF_ERROR(WriteOwn());
      tell = true;
    }
    if (!tell) return OkStatus();
    tell_at_ = kNever;
    Tell();
    return OkStatus();
  }

  void Tell(Status trouble = {}) {
    Snapshot snapshot = registry_.Now();
    snapshot.trouble = std::move(trouble);
    if (registry_.holder() == Registry::Holder::kThis) {
      for (const Value& claim : registry_.claims()) {
        snapshot.conflicts.push_back({own_.name, own_.address, claim.address, "etcd"});
      }
    } else if (taken_ && Clock::now() - taken_since_ > options_.lease + milliseconds(1000)) {
      // Kept alive, and so not what an earlier run of this node has left.
      snapshot.conflicts.push_back({own_.name, own_.address, registry_.held_by().address, "etcd"});
    }
    for (const NameConflict& conflict : snapshot.conflicts) {
      if (told_.size() >= kMaxRivalsTold || !told_.insert(conflict.other).second) continue;
      log::Warning("another daemon has the name of this node in etcd",
                   {{"name", conflict.name},
                    {"this", conflict.address},
                    {"other", conflict.other},
                    {"try", "give every node its own name, or stop one of the two"}});
    }
    sink_.Found(std::move(snapshot));
  }

  static constexpr size_t kMaxRivalsTold = 16;

  const EtcdOptions options_;
  Sink& sink_;
  const milliseconds call_limit_;
  const Value own_;
  CallStop stop_;
  Mutex mutex_;
  Condition changed_;
  bool leaving_ ONECOPY_GUARDED_BY(mutex_) = false;

  // Of the thread.
  Registry registry_;
  std::unique_ptr<Connection> connection_;
  size_t server_ = 0;
  int64_t lease_ = 0;            // 0: none yet
  int64_t entry_lease_ = 0;      // under which the entry was written
  int64_t claimed_lease_ = 0;    // under which the name was claimed; 0: it is not
  bool registered_ = false;      // the entry was written once
  Clock::time_point read_at_{};  // when all entries were read last
  Clock::time_point keep_at_{};
  Clock::time_point retry_at_ = kNever;  // when the entry is tried to be written again
  Clock::time_point tell_at_ = kNever;   // when changes are told
  bool taken_ = false;                   // the name is another node's
  Clock::time_point taken_since_{};
  std::set<std::string> told_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Discovery> StartEtcd(EtcdOptions options, Sink& sink) {
  return std::make_unique<Etcd>(std::move(options), sink);
}

}  // namespace onecopy::discovery
