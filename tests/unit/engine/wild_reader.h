// A peer's end of a transfer that does as it likes: no engine, but a link and calls of its own.
#pragma once

#include <deque>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "daemon/pipeline/message.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/link_pair.h"
#include "tests/support/memory.h"
#include "transport/core/base/mutex.h"

namespace onecopy::testing {

using namespace onecopy::engine;

// Speaks to node `owner` as if it were node `name`, which the cluster must know.
class WildReader {
 public:
  WildReader(EngineCluster& cluster, std::string owner, std::string name)
      : cluster_(cluster),
        owner_(std::move(owner)),
        name_(std::move(name)),
        link_(MakeTcpLink(name_)) {
    // The node whose name it uses knows nothing of what it does, and would say so.
    cluster_.HangCalls("Query");
    auto dialing = Dial(*link_, owner_);
    REQUIRE_OK(dialing);
    auto answer = Call<ConnectReply>([&](PeerApi& api, auto reply) {
      api.Connect(name_, {"tcp", (*dialing)->offer()}, std::move(reply));
    });
    REQUIRE_OK(answer);
    number_ = answer->connection;
    std::promise<Result<std::shared_ptr<Connection>>> made;
    (*dialing)->Establish("127.0.0.1", answer->answer,
                          [&](auto connection) { made.set_value(std::move(connection)); });
    auto connection = made.get_future().get();
    REQUIRE_OK(connection);
    connection_ = std::move(*connection);
    connection_->Listen(kChannel, [this](std::span<const std::byte> bytes) {
      const auto message = pipeline::Decode(bytes);
      const MutexLock lock(mutex_);
      if (message) heard_.push_back(*message);
      news_.NotifyAll();
    });
  }
  ~WildReader() { link_->Shutdown(); }

  Connection& connection() { return *connection_; }

  // Has the source promise a staged transfer of this range for `uid`, and prepare it.
  Result<PrepareReply> Prepare(const std::string& source, uint32_t uid, uint64_t chunk_bytes,
                               const TransferId& id = {}) {
    ReserveRequest reserve;
    reserve.id = id.empty() ? TransferId("wild" + std::to_string(next_id_++)) : id;
    reserve.uid = uid;
    reserve.destination_node = name_;
    reserve.source = ParseEnd(source);
    auto reserved = Call<Reservation>(
        [&](PeerApi& api, auto reply) { api.Reserve(name_, reserve, std::move(reply)); });
    ONECOPY_RETURN_IF_ERROR(reserved.status());
    PrepareRequest prepare;
    prepare.ticket = reserved->ticket;
    prepare.id = id_ = reserve.id;
    prepare.connection = number_;
    prepare.channel = kChannel;
    prepare.staged = true;
    prepare.chunk_bytes = chunk_bytes;
    prepare.transfer.id = reserve.id;
    return Call<PrepareReply>(
        [&](PeerApi& api, auto reply) { api.Prepare(name_, prepare, std::move(reply)); });
  }
  // Has the source promise that range for `uid`, and open it for a ring's transfers, of which parts
  // will be asked for on channel `fills`.
  Result<OpenRangeReply> OpenRange(const std::string& source, uint32_t uid, uint64_t fills) {
    ReserveRequest reserve;
    reserve.id = TransferId("wild" + std::to_string(next_id_++));
    reserve.uid = uid;
    reserve.destination_node = name_;
    reserve.source = ParseEnd(source);
    auto reserved = Call<Reservation>(
        [&](PeerApi& api, auto reply) { api.Reserve(name_, reserve, std::move(reply)); });
    ONECOPY_RETURN_IF_ERROR(reserved.status());
    OpenRangeRequest open;
    open.ticket = reserved->ticket;
    open.id = reserve.id;
    open.connection = number_;
    open.fills = fills;
    return Call<OpenRangeReply>(
        [&](PeerApi& api, auto reply) { api.OpenRange(name_, open, std::move(reply)); });
  }
  Result<FinishReply> Finish(const Status& status = {}) {
    return Call<FinishReply>([&](PeerApi& api, auto reply) {
      api.Finish(name_, {id_, status, false}, std::move(reply));
    });
  }

  // The next message of that kind; others are dropped.
  template <typename Message>
  Message Await() {
    const MutexLock lock(mutex_);
    while (true) {
      while (heard_.empty()) news_.Wait(mutex_);
      const pipeline::Message next = std::move(heard_.front());
      heard_.pop_front();
      if (const auto* wanted = std::get_if<Message>(&next)) return *wanted;
    }
  }
  void Say(const pipeline::Message& message) {
    const std::string text = pipeline::Encode(message);
    REQUIRE(connection_->Send(kChannel, std::as_bytes(std::span(text))).ok());
  }
  Status Get(const RemoteKey& key, uint64_t offset, const Span& into) {
    std::promise<Status> got;
    GetRequest request;
    request.channel = kChannel;
    request.key = &key;
    request.key_offset = offset;
    request.into = into;
    connection_->Get(request, [&](Status status, const StepList&, unsigned) {
      got.set_value(std::move(status));
    });
    return got.get_future().get();
  }

 private:
  template <typename T, typename F>
  Result<T> Call(F call) {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    auto future = promise->get_future();
    REQUIRE(cluster_.PostTo(owner_, [call, promise](PeerApi& api) mutable {
      call(api, Reply<T>([promise](Result<T> result) { promise->set_value(std::move(result)); }));
    }));
    return future.get();
  }

  static constexpr ChannelId kChannel = 4711;

  EngineCluster& cluster_;
  const std::string owner_;
  const std::string name_;
  const std::unique_ptr<Link> link_;
  uint64_t number_ = 0;
  std::shared_ptr<Connection> connection_;
  TransferId id_;
  int next_id_ = 1;
  Mutex mutex_;
  Condition news_;
  std::deque<pipeline::Message> heard_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::testing
