// The engine's interfaces, played by a test: they record what they are asked, and answer with what
// the test says. Engine thread.
#pragma once

#include <any>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "daemon/engine/api/client_api.h"
#include "daemon/engine/api/peer_api.h"

namespace onecopy::rpc {

// What was asked last, and how to answer.
class Script {
 public:
  // Answers all that follows with `answer`, a value of the type that the method replies with.
  template <typename T>
  void AnswerWith(T answer) {
    failure_ = OkStatus();
    answer_ = std::move(answer);
  }
  void AnswerOk() { failure_ = OkStatus(); }
  void FailWith(Status failure) { failure_ = std::move(failure); }
  // Keeps replies until Release or until they are dropped.
  void Hold() { hold_ = true; }
  void Release() {
    hold_ = false;
    for (auto held = std::exchange(held_, {}); Task & answer : held) answer();
  }
  void Drop() { held_.clear(); }
  size_t held() const { return held_.size(); }

  const std::string& method() const { return method_; }
  size_t count() const { return count_; }
  // The last call's arguments, between who asked and the reply.
  template <typename... Ts>
  const std::tuple<Ts...>& arguments() const {
    return std::any_cast<const std::tuple<Ts...>&>(arguments_);
  }

  template <typename... Ts>
  void Record(const std::string& method, Ts... arguments) {
    method_ = method;
    ++count_;
    arguments_ = std::tuple<Ts...>(std::move(arguments)...);
  }
  template <typename T>
  void Reply(engine::Reply<T> reply) {
    Later([this, reply = std::move(reply)]() mutable {
      if (!failure_.ok()) return reply(failure_);
      reply(std::any_cast<T>(answer_));
    });
  }
  void ReplyStatus(engine::StatusReply reply) {
    Later([this, reply = std::move(reply)]() mutable { reply(failure_); });
  }

 private:
  void Later(Task answer) {
    if (hold_) {
      held_.push_back(std::move(answer));
    } else {
      answer();
    }
  }

  std::string method_;
  size_t count_ = 0;
  std::any arguments_;
  std::any answer_;
  Status failure_;
  bool hold_ = false;
  std::deque<Task> held_;
};

class FakeClientApi final : public engine::ClientApi {
 public:
  using Principal = engine::Principal;

  Script script;
  Principal who;  // asked last
  using Update = std::function<void(const TransferInfo&)>;
  std::map<WatchId, Update> watches;  // that go on

  void CreateTransfer(const Principal& asker, TransferRequest request, RangeGroups ranges,
                      engine::Reply<TransferInfo> reply) override {
    Handle("CreateTransfer", asker, std::move(reply), std::move(request), std::move(ranges));
  }
  void GetTransfer(const Principal& asker, TransferId id,
                   engine::Reply<TransferInfo> reply) override {
    Handle("GetTransfer", asker, std::move(reply), std::move(id));
  }
  void ListTransfers(const Principal& asker, engine::PageRequest page,
                     engine::Reply<engine::Page<TransferInfo>> reply) override {
    Handle("ListTransfers", asker, std::move(reply), std::move(page));
  }
  Result<WatchId> WatchTransfer(const Principal& asker, const TransferId& id,
                                Update update) override {
    who = asker;
    script.Record("WatchTransfer", id);
    if (!watch_failure.ok()) return watch_failure;
    if (first_update) update(*first_update);
    watches.emplace(++last_watch_, std::move(update));
    return last_watch_;
  }
  void Unwatch(WatchId watch) override { watches.erase(watch); }
  void CancelTransfer(const Principal& asker, TransferId id,
                      engine::Reply<TransferInfo> reply) override {
    Handle("CancelTransfer", asker, std::move(reply), std::move(id));
  }
  void OpenSeries(const Principal& asker, SeriesRequest request,
                  engine::Reply<TransferInfo> reply) override {
    Handle("OpenSeries", asker, std::move(reply), std::move(request));
  }
  void EndSeries(const Principal& asker, SeriesEnd end,
                 engine::Reply<TransferInfo> reply) override {
    Handle("EndSeries", asker, std::move(reply), std::move(end));
  }
  void CreateBuffer(const Principal& asker, CreateBufferRequest request,
                    engine::Reply<BufferInfo> reply) override {
    Handle("CreateBuffer", asker, std::move(reply), std::move(request));
  }
  void RegisterBuffer(const Principal& asker, engine::RegisterBufferRequest request,
                      engine::Reply<BufferInfo> reply) override {
    Handle("RegisterBuffer", asker, std::move(reply), std::move(request));
  }
  void CreateViews(const Principal& asker, std::vector<ViewRequest> views,
                   engine::Reply<std::vector<BufferInfo>> reply) override {
    Handle("CreateViews", asker, std::move(reply), std::move(views));
  }
  void GetBuffer(const Principal& asker, std::string node, std::string name,
                 engine::Reply<BufferInfo> reply) override {
    Handle("GetBuffer", asker, std::move(reply), std::move(node), std::move(name));
  }
  void ListBuffers(const Principal& asker, std::string node, engine::PageRequest page,
                   engine::Reply<engine::Page<BufferInfo>> reply) override {
    Handle("ListBuffers", asker, std::move(reply), std::move(node), std::move(page));
  }
  void DeleteBuffer(const Principal& asker, std::string node, std::string name, bool force,
                    engine::StatusReply reply) override {
    HandleStatus("DeleteBuffer", asker, std::move(reply), std::move(node), std::move(name), force);
  }
  void SumBuffer(const Principal& asker, SumRequest request,
                 engine::Reply<BufferSum> reply) override {
    Handle("SumBuffer", asker, std::move(reply), std::move(request));
  }
  void CreateGrant(const Principal& asker, CreateGrantRequest request,
                   engine::Reply<GrantInfo> reply) override {
    Handle("CreateGrant", asker, std::move(reply), std::move(request));
  }
  void ListExports(const Principal& asker, std::string node, engine::PageRequest page,
                   engine::Reply<engine::Page<ExportInfo>> reply) override {
    Handle("ListExports", asker, std::move(reply), std::move(node), std::move(page));
  }
  void ListGrants(const Principal& asker, std::string node, std::string buffer,
                  engine::PageRequest page, engine::Reply<engine::Page<GrantInfo>> reply) override {
    Handle("ListGrants", asker, std::move(reply), std::move(node), std::move(buffer),
           std::move(page));
  }
  void DeleteGrant(const Principal& asker, GrantId id, engine::StatusReply reply) override {
    HandleStatus("DeleteGrant", asker, std::move(reply), std::move(id));
  }
  Result<WatchId> WatchArrivals(const Principal& asker, const std::string& buffer,
                                std::function<void()> news) override {
    who = asker;
    script.Record("WatchArrivals", buffer);
    if (!watch_failure.ok()) return watch_failure;
    arrival_watches.emplace(++last_watch_, std::move(news));
    return last_watch_;
  }
  engine::ArrivalsTold TakeArrivals(WatchId) override {
    return on_take ? on_take() : std::exchange(told, {});
  }
  void UnwatchArrivals(WatchId watch) override { arrival_watches.erase(watch); }
  void AcknowledgeArrivals(const Principal& asker, WatchId watch, uint64_t count,
                           engine::StatusReply reply) override {
    HandleStatus("AcknowledgeArrivals", asker, std::move(reply), watch, count);
  }
  void SendMessage(const Principal& asker, MessageRequest request,
                   engine::StatusReply reply) override {
    HandleStatus("SendMessage", asker, std::move(reply), std::move(request));
  }
  void GetNode(const Principal& asker, std::string name, engine::Reply<NodeInfo> reply) override {
    Handle("GetNode", asker, std::move(reply), std::move(name));
  }
  void ListNodes(const Principal& asker, engine::PageRequest page,
                 engine::Reply<engine::Page<NodeInfo>> reply) override {
    Handle("ListNodes", asker, std::move(reply), std::move(page));
  }
  void ProbeNode(const Principal& asker, std::string name,
                 engine::Reply<std::vector<ProbeInfo>> reply) override {
    Handle("ProbeNode", asker, std::move(reply), std::move(name));
  }
  void ReleaseDevice(const Principal& asker, std::string device,
                     engine::StatusReply reply) override {
    HandleStatus("ReleaseDevice", asker, std::move(reply), std::move(device));
  }
  void SetLogLevel(const Principal& asker, std::string level,
                   engine::Reply<std::string> reply) override {
    Handle("SetLogLevel", asker, std::move(reply), std::move(level));
  }
  void SetDraining(const Principal& asker, bool draining, bool wait,
                   engine::Reply<uint64_t> reply) override {
    Handle("SetDraining", asker, std::move(reply), std::move(draining), std::move(wait));
  }

  Status watch_failure;
  std::map<WatchId, std::function<void()>> arrival_watches;  // that go on
  engine::ArrivalsTold told;                                 // next, to whichever asks first
  std::function<engine::ArrivalsTold()> on_take;             // instead
  std::optional<TransferInfo> first_update;                  // given at once to each watch

 private:
  template <typename T, typename... Ts>
  void Handle(const char* method, const Principal& asker, engine::Reply<T> reply, Ts... arguments) {
    who = asker;
    script.Record(method, std::move(arguments)...);
    script.Reply<T>(std::move(reply));
  }
  template <typename... Ts>
  void HandleStatus(const char* method, const Principal& asker, engine::StatusReply reply,
                    Ts... arguments) {
    who = asker;
    script.Record(method, std::move(arguments)...);
    script.ReplyStatus(std::move(reply));
  }

  WatchId last_watch_ = 0;
};

class FakePeerApi final : public engine::PeerApi {
 public:
  Script script;
  std::string caller;  // that asked last

  void Hello(const std::string& asker, engine::HelloRequest request,
             engine::Reply<engine::HelloReply> reply) override {
    Handle("Hello", asker, std::move(reply), std::move(request));
  }
  void Reserve(const std::string& asker, engine::ReserveRequest request,
               engine::Reply<engine::Reservation> reply) override {
    Handle("Reserve", asker, std::move(reply), std::move(request));
  }
  void Start(const std::string& asker, engine::StartRequest request,
             engine::Reply<TransferInfo> reply) override {
    Handle("Start", asker, std::move(reply), std::move(request));
  }
  void Connect(const std::string& asker, engine::ConnectRequest request,
               engine::Reply<engine::ConnectReply> reply) override {
    Handle("Connect", asker, std::move(reply), std::move(request));
  }
  void Prepare(const std::string& asker, engine::PrepareRequest request,
               engine::Reply<engine::PrepareReply> reply) override {
    Handle("Prepare", asker, std::move(reply), std::move(request));
  }
  void Finish(const std::string& asker, engine::FinishRequest request,
              engine::Reply<engine::FinishReply> reply) override {
    Handle("Finish", asker, std::move(reply), std::move(request));
  }
  void OpenProbe(const std::string& asker, engine::OpenProbeRequest request,
                 engine::Reply<engine::OpenProbeReply> reply) override {
    Handle("OpenProbe", asker, std::move(reply), std::move(request));
  }
  void CloseProbe(const std::string& asker, uint64_t probe, engine::StatusReply reply) override {
    caller = asker;
    script.Record("CloseProbe", probe);
    script.ReplyStatus(std::move(reply));
  }
  void OpenRange(const std::string& asker, engine::OpenRangeRequest request,
                 engine::Reply<engine::OpenRangeReply> reply) override {
    Handle("OpenRange", asker, std::move(reply), std::move(request));
  }
  void OpenPush(const std::string& asker, engine::OpenPushRequest request,
                engine::Reply<engine::OpenPushReply> reply) override {
    Handle("OpenPush", asker, std::move(reply), std::move(request));
  }
  void CloseOpening(const std::string& asker, uint64_t opening,
                    engine::StatusReply reply) override {
    caller = asker;
    script.Record("CloseOpening", opening);
    script.ReplyStatus(std::move(reply));
  }
  void ImportMemory(const std::string& asker, engine::ImportMemoryRequest request,
                    engine::Reply<engine::MemoryExport> reply) override {
    Handle("ImportMemory", asker, std::move(reply), std::move(request));
  }
  void Recall(const std::string& asker, uint64_t loan, TransferId id,
              engine::StatusReply reply) override {
    caller = asker;
    script.Record("Recall", loan, std::move(id));
    script.ReplyStatus(std::move(reply));
  }
  void Report(const std::string& asker, TransferInfo transfer, engine::StatusReply reply) override {
    caller = asker;
    script.Record("Report", std::move(transfer));
    script.ReplyStatus(std::move(reply));
  }
  void Query(const std::string& asker, TransferId id, engine::Reply<TransferInfo> reply) override {
    Handle("Query", asker, std::move(reply), std::move(id));
  }
  void Cancel(const std::string& asker, Uid uid, TransferId id,
              engine::Reply<TransferInfo> reply) override {
    Handle("Cancel", asker, std::move(reply), uid, std::move(id));
  }
  void CreateBuffer(const std::string& asker, Uid uid, CreateBufferRequest request,
                    engine::Reply<BufferInfo> reply) override {
    Handle("CreateBuffer", asker, std::move(reply), uid, std::move(request));
  }
  void DeleteBuffer(const std::string& asker, Uid uid, std::string name, bool force,
                    engine::StatusReply reply) override {
    caller = asker;
    script.Record("DeleteBuffer", uid, std::move(name), force);
    script.ReplyStatus(std::move(reply));
  }
  void GetBuffer(const std::string& asker, Uid uid, std::string name,
                 engine::Reply<BufferInfo> reply) override {
    Handle("GetBuffer", asker, std::move(reply), uid, std::move(name));
  }
  void ListBuffers(const std::string& asker, Uid uid, engine::PageRequest page,
                   engine::Reply<engine::Page<BufferInfo>> reply) override {
    Handle("ListBuffers", asker, std::move(reply), uid, std::move(page));
  }
  void SumBuffer(const std::string& asker, Uid uid, SumRequest request,
                 engine::Reply<BufferSum> reply) override {
    Handle("SumBuffer", asker, std::move(reply), uid, std::move(request));
  }
  void ListExports(const std::string& asker, Uid uid, engine::PageRequest page,
                   engine::Reply<engine::Page<ExportInfo>> reply) override {
    Handle("ListExports", asker, std::move(reply), uid, std::move(page));
  }
  void ListGrants(const std::string& asker, Uid uid, engine::PageRequest page,
                  engine::Reply<engine::Page<GrantInfo>> reply) override {
    Handle("ListGrants", asker, std::move(reply), uid, std::move(page));
  }
  void SendMessage(const std::string& asker, engine::PeerMessage message,
                   engine::StatusReply reply) override {
    caller = asker;
    script.Record("SendMessage", std::move(message));
    script.ReplyStatus(std::move(reply));
  }

 private:
  template <typename T, typename... Ts>
  void Handle(const char* method, const std::string& asker, engine::Reply<T> reply,
              Ts... arguments) {
    caller = asker;
    script.Record(method, std::move(arguments)...);
    script.Reply<T>(std::move(reply));
  }
};

}  // namespace onecopy::rpc
