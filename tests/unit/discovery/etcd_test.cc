// What a node does with an etcd that is slow, full, or has forgotten.
#include "daemon/discovery/etcd/etcd.h"

#include <atomic>
#include <future>
#include <optional>

#include "daemon/discovery/etcd/registry.h"
#include "daemon/discovery/etcd/value.h"
#include "tests/support/catch.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/discovery/fake_etcd.h"

namespace onecopy::discovery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeEtcd;
using testing::WaitUntil;

const std::string kNodes = "/onecopy/nodes/";
constexpr milliseconds::rep kRounded = 100;  // gRPC rounds what is left of a call's time up

// What was told last.
class Told final : public Sink {
 public:
  void Found(Snapshot snapshot) override {
    const MutexLock lock(mutex_);
    found_ = std::move(snapshot);
  }
  void Failed(const Status& why) override {
    const MutexLock lock(mutex_);
    failed_.push_back(why);
  }
  bool Has(const std::string& node) const {
    const MutexLock lock(mutex_);
    return std::any_of(found_.entries.begin(), found_.entries.end(),
                       [&](const Entry& entry) { return entry.name == node; });
  }
  std::vector<Status> failed() const {
    const MutexLock lock(mutex_);
    return failed_;
  }

 private:
  mutable Mutex mutex_;
  Snapshot found_ ONECOPY_GUARDED_BY(mutex_);
  std::vector<Status> failed_ ONECOPY_GUARDED_BY(mutex_);
};

EtcdOptions OptionsFor(const FakeEtcd& etcd) {
  EtcdOptions options;
  options.servers = {etcd.where()};
  options.prefix = kNodes;
  options.node = "east";
  options.address = "10.0.0.1:7701";
  return options;
}

void PutNode(FakeEtcd& etcd, const std::string& name) {
  etcd.Put(kNodes + name, PrintValue({name, "10.0.0.2:7701", "bb"}));
}

}  // namespace

TEST_CASE("a watch whose revision etcd has compacted begins again with all entries") {
  FakeEtcd etcd;
  Told told;
  etcd.compacted = [&](size_t number) { return number < 2; };
  const auto discovery = StartEtcd(OptionsFor(etcd), told);
  WaitUntil("the third watch has begun", [&] { return etcd.watches() == 3; });
  PutNode(etcd, "west");
  WaitUntil("west is found", [&] { return told.Has("west"); });
  CHECK(told.failed().empty());
}

TEST_CASE("entries whose revision is compacted while they are read are read again") {
  FakeEtcd etcd;
  Told told;
  for (const char* name : {"a", "b", "west"}) PutNode(etcd, name);
  etcd.most_in_page = 1;
  std::atomic<int> later = 0;
  etcd.on_range = [&](const etcdserverpb::RangeRequest& request) {
    return request.revision() != 0 && later++ == 0
               ? grpc::Status(grpc::StatusCode::OUT_OF_RANGE,
                              "etcdserver: mvcc: required revision has been compacted")
               : grpc::Status::OK;
  };
  const auto discovery = StartEtcd(OptionsFor(etcd), told);
  WaitUntil("all are found", [&] { return told.Has("a") && told.Has("west"); });
  CHECK(told.failed().empty());
}

TEST_CASE("a lease is kept alive while entries are read, and reading all of them has a limit") {
  FakeEtcd etcd;
  Told told;
  EtcdOptions options = OptionsFor(etcd);
  options.lease = seconds(2);
  options.look_limit = milliseconds(100);
  std::atomic<bool> kept = false;
  std::atomic<size_t> pages = 0;
  etcd.most_in_page = 1;
  PutNode(etcd, "n1");
  SECTION("kept alive") {
    options.look_limit = std::chrono::minutes(10);
    etcd.on_keep_alive = [&](milliseconds) {
      kept = true;
      return grpc::Status::OK;
    };
    // One more after each page, until then.
    etcd.on_range = [&](const etcdserverpb::RangeRequest&) {
      if (!kept) PutNode(etcd, "n" + std::to_string(1'000'000 + pages++));
      return grpc::Status::OK;
    };
    const auto discovery = StartEtcd(options, told);
    WaitUntil("east is registered", [&] { return etcd.Has(kNodes + "east"); });
    CHECK(kept);
    CHECK(told.failed().empty());
  }
  SECTION("limited") {
    etcd.on_range = [&](const etcdserverpb::RangeRequest&) {
      PutNode(etcd, "n" + std::to_string(1'000'000 + pages++));
      return grpc::Status::OK;
    };
    const auto discovery = StartEtcd(options, told);
    WaitUntil("it is given up", [&] { return !told.failed().empty(); });
    CHECK(told.failed().front().message().find("has taken longer than 100 ms") !=
          std::string::npos);
  }
}

TEST_CASE("a call ends while another server still has time to keep the lease") {
  FakeEtcd etcd;
  Told told;
  EtcdOptions options = OptionsFor(etcd);
  options.lease = seconds(2);
  std::promise<milliseconds> allowed;
  std::atomic<bool> first = true;
  etcd.on_keep_alive = [&](milliseconds left) {
    if (first.exchange(false)) allowed.set_value(left);
    return grpc::Status::OK;
  };
  const auto discovery = StartEtcd(options, told);
  CHECK(allowed.get_future().get() <= milliseconds(options.lease) / 3 + milliseconds(kRounded));
}

TEST_CASE("a node that leaves has a second for all that it says to etcd") {
  FakeEtcd etcd;
  Told told;
  const testing::TempFolder folder;
  testing::WriteFile(folder / "password", "word\n");
  EtcdOptions options = OptionsFor(etcd);
  options.lease = seconds(4);
  options.secrets.user = "onecopy";
  options.secrets.password_file = folder / "password";
  // The connection breaks, and the next one is not let in in time.
  std::promise<void> again;
  std::promise<void> left;
  std::atomic<int> asked = 0;
  std::atomic<milliseconds::rep> to_enter = 0;
  std::atomic<milliseconds::rep> to_revoke = 0;
  etcd.on_keep_alive = [](milliseconds) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "no leader");
  };
  etcd.on_authenticate = [&, leaves = left.get_future().share()](milliseconds allowed) {
    to_enter = allowed.count();
    if (asked++ == 1) {
      again.set_value();
      leaves.wait();
    }
    return grpc::Status::OK;
  };
  etcd.on_revoke = [&](milliseconds allowed) {
    to_revoke = allowed.count();
    return grpc::Status::OK;
  };
  const auto discovery = StartEtcd(options, told);
  again.get_future().wait();
  discovery->Leave();
  left.set_value();
  CHECK(asked == 3);
  CHECK(to_enter <= 1000 + kRounded);
  CHECK(to_revoke > 0);
  CHECK(to_revoke <= 1000 + kRounded);
}

TEST_CASE("entries that had no room are read once others have gone") {
  FakeEtcd etcd;
  Told told;
  std::vector<std::string> noise;
  for (size_t i = 0; i <= kMaxKeys; ++i) noise.push_back(kNodes + "n" + std::to_string(i));
  for (const std::string& key : noise) etcd.Put(key, "noise");
  PutNode(etcd, "west");
  EtcdOptions options = OptionsFor(etcd);
  options.lease = seconds(2);
  options.look_again = milliseconds(0);
  const auto discovery = StartEtcd(options, told);
  WaitUntil("it watches", [&] { return etcd.watches() > 0; });
  CHECK_FALSE(told.Has("west"));
  etcd.Delete(noise);
  WaitUntil("west is found", [&] { return told.Has("west"); });
}

}  // namespace onecopy::discovery
