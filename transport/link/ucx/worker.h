// One progress thread's UCX worker: drives it, and shares out what arrives to the connections that
// are at home here.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/link/ucx/context.h"
#include "transport/link/ucx/message.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::ucx {

// UCX's way to one worker of a peer, shared by all connections with it. It is kept until it fails
// or the worker ends: two workers that each made one endpoint for the other are joined by UCX, and
// would no longer fit together if they made them again one by one.
struct Endpoint {
  struct Pair {  // the two ends of a connection
    EndId near = 0;
    EndId far = 0;
  };
  ucp_ep_h handle = nullptr;
  bool reports_failure = false;
  std::string peer;        // the node that it leads to
  std::deque<Pair> pairs;  // the latest kMaxLostEnds that it has carried
  Status failure;          // not OK once it can carry nothing more
};
using EndpointRef = std::shared_ptr<Endpoint>;

// What has its own end of a connection on a worker. Called on the worker's thread, never from
// inside a call to UCX.
class End {
 public:
  virtual ~End() = default;
  virtual void Arrived(Message message) = 0;
  virtual void EndpointFailed(const Endpoint& endpoint) = 0;
};

// A worker of a peer's, as its offer or answer says.
struct FarWorker {
  std::string peer;
  std::string address;  // must come from a trusted node
  bool reports_failure = false;
  std::vector<EndId> lost;  // see Offer
};

struct GetOperation {
  ucp_rkey_h rkey = nullptr;
  uint64_t address = 0;
  Span into;  // held until UCX no longer uses it
};

// Everything on the thread of loop(), except loop() itself.
class Worker {
 public:
  // `loop` runs; blocks until the worker is there.
  static Result<std::unique_ptr<Worker>> Create(std::shared_ptr<Context> context,
                                                os::LoopThread& thread);
  ~Worker();  // after Stop, or where Create failed
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  os::EventLoop& loop() { return loop_; }
  Context& context() { return *context_; }
  const std::string& address() const { return address_; }  // for UCX of a peer

  // The endpoint to that worker. One that has carried what the far worker has lost is failed
  // before, and replaced: its counterpart is gone, and what followed on it would go with it.
  Result<EndpointRef> Connect(const FarWorker& far);
  // The far ends of the peer's connections whose endpoints have failed here, the latest of them.
  std::vector<EndId> LostEnds(const std::string& peer) const;

  // `end` is told what arrives for `ends.near`, and what becomes of its endpoint, until Detach.
  void Attach(Endpoint& endpoint, Endpoint::Pair ends, std::shared_ptr<End> end);
  void Detach(EndId id) { ends_.erase(id); }

  // A message is sent or, where the endpoint fails, lost.
  void Send(const EndpointRef& endpoint, const Message& message);

  // `done` gets UCX's words for the operation (empty where it has none), never inside this call,
  // and after UCX no longer uses the memory. `told` gets them inside the call where they are known.
  using GetDone = UniqueFunction<void(Status, const std::string& info)>;
  using Told = std::function<void(const std::string& info)>;
  void Get(const EndpointRef& endpoint, GetOperation operation, const Told& told, GetDone done);

  Result<ucp_rkey_h> Unpack(const EndpointRef& endpoint, const std::string& rkey);
  void Destroy(ucp_rkey_h rkey) { api_.RkeyDestroy(rkey); }

  // Ends the endpoint, and with it everything on it; its ends are told.
  void Fail(const EndpointRef& endpoint, Status why);

  // Closes what is open and ends the worker. Bounded in time. No end may be attached any more.
  void Stop();

 private:
  struct Sending;
  struct Getting;

  Worker(std::shared_ptr<Context> context, os::EventLoop& loop);
  Status Start();
  void FailIfLost(const FarWorker& far);
  bool Turn();  // true while there may be more to do
  bool Drain();
  bool ReapClosing();
  void CloseEndpoint(const Endpoint& endpoint);

  static ucs_status_t OnMessage(void* self, const void* header, size_t header_bytes, void* data,
                                size_t bytes, const ucp_am_recv_param_t* param);
  static void OnFailure(void* self, ucp_ep_h endpoint, ucs_status_t status);
  static void OnSent(void* request, ucs_status_t status, void* sending);
  static void OnGot(void* request, ucs_status_t status, void* getting);
  void Finish(Getting* getting);

  const std::shared_ptr<Context> context_;
  const shim::UcxApi& api_;
  os::EventLoop& loop_;
  ucp_worker_h worker_ = nullptr;
  std::string address_;
  int events_ = -1;
  os::Clock::time_point last_work_;
  std::map<std::string, EndpointRef> endpoints_;  // by the far worker's address
  std::unordered_map<EndId, std::shared_ptr<End>> ends_;
  std::map<std::string, std::deque<EndId>> lost_;  // by peer

  // What UCX reported from inside a call; dealt with after it.
  std::deque<Message> arrived_;
  std::vector<Getting*> got_;
  std::vector<std::pair<ucp_ep_h, ucs_status_t>> failed_;

  // What UCX still uses.
  std::unordered_map<Sending*, std::unique_ptr<Sending>> sending_;
  std::unordered_map<Getting*, std::unique_ptr<Getting>> getting_;
  std::vector<void*> closing_;  // requests
};

}  // namespace onecopy::ucx
