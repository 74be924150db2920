// A server of etcd that a test has do what a real one does seldom.
#pragma once

#include <etcd.grpc.pb.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/discovery/etcd/server.h"
#include "transport/core/base/mutex.h"

namespace onecopy::testing {

// Serves from its construction on, on a port of its own; ends with the object. Any thread; the
// functions below are set before a client comes, and run on threads of the server.
class FakeEtcd {
 public:
  using Clock = std::chrono::system_clock;
  using Left = std::chrono::milliseconds;  // of a call's time, as its caller has set it

  // Each runs before its call is answered; one that fails is the answer.
  std::function<grpc::Status(const etcdserverpb::RangeRequest&)> on_range;
  std::function<grpc::Status(Left)> on_keep_alive;
  std::function<grpc::Status(Left)> on_authenticate;
  std::function<grpc::Status(Left)> on_revoke;
  // Whether a watch of that number, from 0 on, is told that its revision is gone.
  std::function<bool(size_t number)> compacted = [](size_t) { return false; };
  int64_t most_in_page = 1000;  // keys, whatever a client allows

  FakeEtcd() : kv_(*this), lease_(*this), watch_(*this), auth_(*this) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    for (grpc::Service* service :
         std::initializer_list<grpc::Service*>{&kv_, &lease_, &watch_, &auth_}) {
      builder.RegisterService(service);
    }
    server_ = builder.BuildAndStart();
  }
  ~FakeEtcd() { server_->Shutdown(Clock::now()); }

  discovery::EtcdServer where() const {
    return {false, {"127.0.0.1", static_cast<uint16_t>(port_)}};
  }

  void Put(const std::string& key, const std::string& value) {
    const MutexLock lock(mutex_);
    Write(key, value, 0);
  }
  // As one change.
  void Delete(const std::vector<std::string>& keys) {
    const MutexLock lock(mutex_);
    etcdserverpb::WatchResponse change;
    ++revision_;
    for (const std::string& key : keys) {
      if (keys_.erase(key) == 0) continue;
      etcdserverpb::Event& event = *change.add_events();
      event.set_type(etcdserverpb::Event::DELETE);
      event.mutable_kv()->set_key(key);
    }
    Tell(change);
  }
  bool Has(const std::string& key) const {
    const MutexLock lock(mutex_);
    return keys_.contains(key);
  }
  size_t watches() const {
    const MutexLock lock(mutex_);
    return watches_;
  }

 private:
  using WatchStream =
      grpc::ServerReaderWriter<etcdserverpb::WatchResponse, etcdserverpb::WatchRequest>;

  static Left LeftOf(const grpc::ServerContext& context) {
    return std::chrono::duration_cast<Left>(context.deadline() - Clock::now());
  }
  template <typename Function, typename... Arguments>
  static grpc::Status Ask(const Function& function, const Arguments&... arguments) {
    return function ? function(arguments...) : grpc::Status::OK;
  }

  void Write(const std::string& key, const std::string& value, int64_t lease)
      ONECOPY_REQUIRES(mutex_) {
    etcdserverpb::KeyValue& kv = keys_[key];
    if (kv.create_revision() == 0) kv.set_create_revision(revision_ + 1);
    kv.set_key(key);
    kv.set_value(value);
    kv.set_lease(lease);
    kv.set_mod_revision(++revision_);
    etcdserverpb::WatchResponse change;
    *change.add_events()->mutable_kv() = kv;
    Tell(change);
  }
  void Tell(etcdserverpb::WatchResponse& change) ONECOPY_REQUIRES(mutex_) {
    change.mutable_header()->set_revision(revision_);
    for (WatchStream* stream : streams_) stream->Write(change);
  }

  struct Kv final : etcdserverpb::KV::Service {
    explicit Kv(FakeEtcd& fake) : etcd(fake) {}
    grpc::Status Range(grpc::ServerContext*, const etcdserverpb::RangeRequest* request,
                       etcdserverpb::RangeResponse* response) override {
      if (grpc::Status said = Ask(etcd.on_range, *request); !said.ok()) return said;
      const MutexLock lock(etcd.mutex_);
      response->mutable_header()->set_revision(etcd.revision_);
      const int64_t most = std::min(request->limit(), etcd.most_in_page);
      for (auto at = etcd.keys_.lower_bound(request->key());
           at != etcd.keys_.end() && at->first < request->range_end(); ++at) {
        if (response->kvs_size() >= most) {
          response->set_more(true);
          break;
        }
        *response->add_kvs() = at->second;
      }
      return grpc::Status::OK;
    }
    grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest* request,
                     etcdserverpb::TxnResponse* response) override {
      const MutexLock lock(etcd.mutex_);
      bool holds = true;
      for (const etcdserverpb::Compare& compare : request->compare()) {
        const auto found = etcd.keys_.find(compare.key());
        const bool absent = found == etcd.keys_.end();
        holds = holds && (compare.target() == etcdserverpb::Compare::CREATE
                              ? absent
                              : !absent && found->second.mod_revision() == compare.mod_revision());
      }
      response->set_succeeded(holds);
      for (const etcdserverpb::RequestOp& op : holds ? request->success() : request->failure()) {
        etcdserverpb::ResponseOp& done = *response->add_responses();
        if (op.has_request_put()) {
          const etcdserverpb::PutRequest& put = op.request_put();
          etcd.Write(put.key(), put.value(), put.lease());
        } else if (op.has_request_range()) {
          const auto found = etcd.keys_.find(op.request_range().key());
          if (found != etcd.keys_.end()) {
            *done.mutable_response_range()->add_kvs() = found->second;
          }
        }
      }
      return grpc::Status::OK;
    }
    FakeEtcd& etcd;
  };

  struct Lease final : etcdserverpb::Lease::Service {
    explicit Lease(FakeEtcd& fake) : etcd(fake) {}
    grpc::Status LeaseGrant(grpc::ServerContext*, const etcdserverpb::LeaseGrantRequest* request,
                            etcdserverpb::LeaseGrantResponse* response) override {
      response->set_id(17);
      response->set_ttl(request->ttl());
      return grpc::Status::OK;
    }
    grpc::Status LeaseRevoke(grpc::ServerContext* context, const etcdserverpb::LeaseRevokeRequest*,
                             etcdserverpb::LeaseRevokeResponse*) override {
      return Ask(etcd.on_revoke, LeftOf(*context));
    }
    grpc::Status LeaseKeepAlive(
        grpc::ServerContext* context,
        grpc::ServerReaderWriter<etcdserverpb::LeaseKeepAliveResponse,
                                 etcdserverpb::LeaseKeepAliveRequest>* stream) override {
      etcdserverpb::LeaseKeepAliveRequest request;
      while (stream->Read(&request)) {
        if (grpc::Status said = Ask(etcd.on_keep_alive, LeftOf(*context)); !said.ok()) return said;
        etcdserverpb::LeaseKeepAliveResponse response;
        response.set_id(request.id());
        response.set_ttl(10);
        stream->Write(response);
      }
      return grpc::Status::OK;
    }
    FakeEtcd& etcd;
  };

  struct Watching final : etcdserverpb::Watch::Service {
    explicit Watching(FakeEtcd& fake) : etcd(fake) {}
    grpc::Status Watch(grpc::ServerContext*, WatchStream* stream) override {
      etcdserverpb::WatchRequest request;
      if (!stream->Read(&request)) return grpc::Status::OK;
      {
        const MutexLock lock(etcd.mutex_);
        const bool gone = etcd.compacted(etcd.watches_++);
        etcdserverpb::WatchResponse response;
        response.mutable_header()->set_revision(etcd.revision_);
        response.set_created(true);
        stream->Write(response);
        if (gone) {
          response.set_created(false);
          response.set_canceled(true);
          response.set_compact_revision(etcd.revision_);
          response.set_cancel_reason("etcdserver: mvcc: required revision has been compacted");
          stream->Write(response);
        } else {
          etcd.streams_.insert(stream);
        }
      }
      while (stream->Read(&request)) {
      }
      const MutexLock lock(etcd.mutex_);
      etcd.streams_.erase(stream);
      return grpc::Status::OK;
    }
    FakeEtcd& etcd;
  };

  struct Auth final : etcdserverpb::Auth::Service {
    explicit Auth(FakeEtcd& fake) : etcd(fake) {}
    grpc::Status Authenticate(grpc::ServerContext* context,
                              const etcdserverpb::AuthenticateRequest*,
                              etcdserverpb::AuthenticateResponse* response) override {
      response->set_token("token");
      return Ask(etcd.on_authenticate, LeftOf(*context));
    }
    FakeEtcd& etcd;
  };

  mutable Mutex mutex_;
  std::map<std::string, etcdserverpb::KeyValue> keys_ ONECOPY_GUARDED_BY(mutex_);
  int64_t revision_ ONECOPY_GUARDED_BY(mutex_) = 1;
  size_t watches_ ONECOPY_GUARDED_BY(mutex_) = 0;
  std::set<WatchStream*> streams_ ONECOPY_GUARDED_BY(mutex_);
  Kv kv_;
  Lease lease_;
  Watching watch_;
  Auth auth_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace onecopy::testing
