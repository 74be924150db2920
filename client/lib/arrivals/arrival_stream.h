// One call of WatchArrivals, received in the background.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "client/lib/session/session.h"
#include "onecopy/arrival.h"
#include "onecopy/v1/arrival.grpc.pb.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

// Thread-safe. What is received and not taken is bounded by what the daemon lets be unacknowledged.
// The calls that it makes keep gRPC's channel: they must have ended, and go, on a thread that is
// not gRPC's own, which the last of a channel's users joins.
class ArrivalStream final : public grpc::ClientReadReactor<v1::WatchArrivalsResponse> {
 public:
  // Blocks until the daemon watches. The stream keeps the session, and ends with it.
  static Result<std::shared_ptr<ArrivalStream>> Open(SessionRef session, const std::string& buffer);
  explicit ArrivalStream(SessionRef session) : session_(std::move(session)) {}
  ~ArrivalStream() override;  // ends the calls; not on a thread of gRPC's

  // At most so many of what is there; fails where nothing is and nothing can come. What was taken
  // before is acknowledged, where that is due.
  Result<ArrivalBatch> Take(size_t most);
  // Blocks until Take has something to say, a stop is requested (CANCELLED), or `until`
  // (DEADLINE_EXCEEDED).
  Status Await(const std::stop_token& stop,
               std::optional<std::chrono::steady_clock::time_point> until);
  // Acknowledges all that was taken, and ends. Safe to repeat.
  Status Close();

  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  struct Acknowledgement {
    grpc::ClientContext context;
    v1::AcknowledgeArrivalsRequest request;
    google::protobuf::Empty reply;
  };

  void Begin(const std::string& buffer);
  bool Something() const ONECOPY_REQUIRES(mutex_) {
    return !received_.empty() || missed_ > 0 || end_.has_value();
  }
  // The acknowledgement of what was taken, where that is worth a call now: to be started, without
  // the mutex, which gRPC might want on the same thread. Null otherwise.
  Acknowledgement* Due() ONECOPY_REQUIRES(mutex_);
  void Start(Acknowledgement& call);
  v1::AcknowledgeArrivalsRequest AllTaken() ONECOPY_REQUIRES(mutex_);

  const SessionRef session_;
  grpc::ClientContext context_;
  v1::WatchArrivalsRequest request_;
  v1::WatchArrivalsResponse response_;  // of the read that is under way

  Mutex mutex_;
  Condition changed_;
  bool started_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool done_ ONECOPY_GUARDED_BY(mutex_) = false;  // the call is over
  bool begun_ ONECOPY_GUARDED_BY(mutex_) = false;
  uint64_t watch_ ONECOPY_GUARDED_BY(mutex_) = 0;
  std::deque<Arrival> received_ ONECOPY_GUARDED_BY(mutex_);
  uint64_t missed_ ONECOPY_GUARDED_BY(mutex_) = 0;
  uint64_t taken_ ONECOPY_GUARDED_BY(mutex_) = 0;
  uint64_t acknowledged_ ONECOPY_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Acknowledgement> call_ ONECOPY_GUARDED_BY(mutex_);  // the last one
  bool acknowledging_ ONECOPY_GUARDED_BY(mutex_) = false;             // it is under way
  std::optional<Status> end_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::client
