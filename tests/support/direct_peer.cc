#include "tests/support/direct_peer.h"

#include <map>
#include <utility>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"

namespace onecopy::testing {
namespace {

using namespace onecopy::engine;

class DirectPeer final : public PeerApi {
 public:
  DirectPeer(EngineCluster& cluster, std::string self, std::string peer, Executor& loop)
      : cluster_(cluster), self_(std::move(self)), peer_(std::move(peer)), loop_(loop) {}

  ~DirectPeer() override {
    // As with a channel that is destroyed: every call still gets its answer.
    for (auto& [number, fail] : pending_->calls) {
      loop_.Post([fail = std::move(fail)]() mutable {
        fail({Code::kCancelled, reasons::kCancelled, "the peer was let go"});
      });
    }
    pending_->calls.clear();
  }

  void Hello(const std::string& caller, HelloRequest request, Reply<HelloReply> reply) override {
    Call<HelloReply>("Hello", std::move(reply), [caller, request](PeerApi& api, auto answer) {
      api.Hello(caller, request, std::move(answer));
    });
  }
  void Reserve(const std::string& caller, ReserveRequest request,
               Reply<Reservation> reply) override {
    Call<Reservation>("Reserve", std::move(reply), [caller, request](PeerApi& api, auto answer) {
      api.Reserve(caller, request, std::move(answer));
    });
  }
  void Start(const std::string& caller, StartRequest request, Reply<TransferInfo> reply) override {
    Call<TransferInfo>("Start", std::move(reply), [caller, request](PeerApi& api, auto answer) {
      api.Start(caller, request, std::move(answer));
    });
  }
  void Connect(const std::string& caller, ConnectRequest request,
               Reply<ConnectReply> reply) override {
    Call<ConnectReply>("Connect", std::move(reply), [caller, request](PeerApi& api, auto answer) {
      api.Connect(caller, request,
                  [answer = std::move(answer)](Result<ConnectReply> connected) mutable {
                    if (connected.ok()) connected->host = "127.0.0.1";
                    answer(std::move(connected));
                  });
    });
  }
  void Prepare(const std::string& caller, PrepareRequest request,
               Reply<PrepareReply> reply) override {
    Call<PrepareReply>("Prepare", Changed(std::move(reply)),
                       [caller, request](PeerApi& api, auto answer) {
                         api.Prepare(caller, request, std::move(answer));
                       });
  }
  void Finish(const std::string& caller, FinishRequest request, Reply<FinishReply> reply) override {
    Call<FinishReply>("Finish", Changed(std::move(reply)),
                      [caller, request](PeerApi& api, auto answer) {
                        api.Finish(caller, request, std::move(answer));
                      });
  }
  void OpenProbe(const std::string& caller, OpenProbeRequest request,
                 Reply<OpenProbeReply> reply) override {
    Call<OpenProbeReply>("OpenProbe", Changed(std::move(reply)),
                         [caller, request](PeerApi& api, auto answer) {
                           api.OpenProbe(caller, request, std::move(answer));
                         });
  }
  void CloseProbe(const std::string& caller, uint64_t probe, StatusReply reply) override {
    Call<bool>(
        "CloseProbe",
        [reply = std::move(reply)](const Result<bool>& told) mutable { reply(told.status()); },
        [caller, probe](PeerApi& api, auto answer) {
          api.CloseProbe(caller, probe, [answer = std::move(answer)](const Status& told) mutable {
            if (told.ok()) return answer(true);
            answer(told);
          });
        });
  }
  void OpenRange(const std::string& caller, OpenRangeRequest request,
                 Reply<OpenRangeReply> reply) override {
    Call<OpenRangeReply>("OpenRange", Changed(std::move(reply)),
                         [caller, request](PeerApi& api, auto answer) {
                           api.OpenRange(caller, request, std::move(answer));
                         });
  }
  void OpenPush(const std::string& caller, OpenPushRequest request,
                Reply<OpenPushReply> reply) override {
    Call<OpenPushReply>("OpenPush", Changed(std::move(reply)),
                        [caller, request](PeerApi& api, auto answer) {
                          api.OpenPush(caller, request, std::move(answer));
                        });
  }
  void CloseOpening(const std::string& caller, uint64_t opening, StatusReply reply) override {
    Call<bool>(
        "CloseOpening",
        [reply = std::move(reply)](const Result<bool>& told) mutable { reply(told.status()); },
        [caller, opening](PeerApi& api, auto answer) {
          api.CloseOpening(caller, opening,
                           [answer = std::move(answer)](const Status& told) mutable {
                             if (told.ok()) return answer(true);
                             answer(told);
                           });
        });
  }
  void ImportMemory(const std::string& caller, ImportMemoryRequest request,
                    Reply<MemoryExport> reply) override {
    Call<MemoryExport>("ImportMemory", Changed(std::move(reply)),
                       [caller, request](PeerApi& api, auto answer) {
                         api.ImportMemory(caller, request, std::move(answer));
                       });
  }
  void Recall(const std::string& caller, uint64_t loan, TransferId id, StatusReply reply) override {
    Call<bool>(
        "Recall",
        [reply = std::move(reply)](const Result<bool>& told) mutable { reply(told.status()); },
        [caller, loan, id](PeerApi& api, auto answer) {
          api.Recall(caller, loan, id, [answer = std::move(answer)](const Status& told) mutable {
            if (told.ok()) return answer(true);
            answer(told);
          });
        });
  }
  void Report(const std::string& caller, TransferInfo transfer, StatusReply reply) override {
    Call<bool>(
        "Report",
        [reply = std::move(reply)](const Result<bool>& told) mutable { reply(told.status()); },
        [caller, transfer](PeerApi& api, auto answer) {
          api.Report(caller, transfer, [answer = std::move(answer)](const Status& told) mutable {
            if (told.ok()) return answer(true);
            answer(told);
          });
        });
  }
  void Query(const std::string& caller, TransferId id, Reply<TransferInfo> reply) override {
    Call<TransferInfo>("Query", std::move(reply), [caller, id](PeerApi& api, auto answer) {
      api.Query(caller, id, std::move(answer));
    });
  }
  void Cancel(const std::string& caller, Uid uid, TransferId id,
              Reply<TransferInfo> reply) override {
    Call<TransferInfo>("Cancel", std::move(reply), [caller, uid, id](PeerApi& api, auto answer) {
      api.Cancel(caller, uid, id, std::move(answer));
    });
  }
  void CreateBuffer(const std::string& caller, Uid uid, CreateBufferRequest request,
                    Reply<BufferInfo> reply) override {
    Call<BufferInfo>("CreateBuffer", std::move(reply),
                     [caller, uid, request](PeerApi& api, auto answer) {
                       api.CreateBuffer(caller, uid, request, std::move(answer));
                     });
  }
  void DeleteBuffer(const std::string& caller, Uid uid, std::string name, bool force,
                    StatusReply reply) override {
    Call<bool>(
        "DeleteBuffer",
        [reply = std::move(reply)](const Result<bool>& told) mutable { reply(told.status()); },
        [caller, uid, name, force](PeerApi& api, auto answer) {
          api.DeleteBuffer(caller, uid, name, force,
                           [answer = std::move(answer)](const Status& told) mutable {
                             if (told.ok()) return answer(true);
                             answer(told);
                           });
        });
  }
  void GetBuffer(const std::string& caller, Uid uid, std::string name,
                 Reply<BufferInfo> reply) override {
    Call<BufferInfo>("GetBuffer", std::move(reply), [caller, uid, name](PeerApi& api, auto answer) {
      api.GetBuffer(caller, uid, name, std::move(answer));
    });
  }
  void ListBuffers(const std::string& caller, Uid uid, PageRequest page,
                   Reply<Page<BufferInfo>> reply) override {
    Call<Page<BufferInfo>>("ListBuffers", std::move(reply),
                           [caller, uid, page](PeerApi& api, auto answer) {
                             api.ListBuffers(caller, uid, page, std::move(answer));
                           });
  }
  void SumBuffer(const std::string& caller, Uid uid, SumRequest request,
                 Reply<BufferSum> reply) override {
    Call<BufferSum>("SumBuffer", std::move(reply),
                    [caller, uid, request](PeerApi& api, auto answer) {
                      api.SumBuffer(caller, uid, request, std::move(answer));
                    });
  }
  void ListGrants(const std::string& caller, Uid uid, PageRequest page,
                  Reply<Page<GrantInfo>> reply) override {
    Call<Page<GrantInfo>>("ListGrants", std::move(reply),
                          [caller, uid, page](PeerApi& api, auto answer) {
                            api.ListGrants(caller, uid, page, std::move(answer));
                          });
  }
  void ListExports(const std::string& caller, Uid uid, PageRequest page,
                   Reply<Page<ExportInfo>> reply) override {
    Call<Page<ExportInfo>>("ListExports", std::move(reply),
                           [caller, uid, page](PeerApi& api, auto answer) {
                             api.ListExports(caller, uid, page, std::move(answer));
                           });
  }
  void SendMessage(const std::string& caller, PeerMessage message, StatusReply reply) override {
    Call<bool>(
        "SendMessage",
        [reply = std::move(reply)](const Result<bool>& told) mutable { reply(told.status()); },
        [caller, message](PeerApi& api, auto answer) {
          api.SendMessage(caller, message,
                          [answer = std::move(answer)](const Status& told) mutable {
                            if (told.ok()) return answer(true);
                            answer(told);
                          });
        });
  }

 private:
  // Calls that wait for their answers; on the dialling engine's thread only.
  struct Pending {
    std::map<uint64_t, UniqueFunction<void(Status)>> calls;
    uint64_t next = 1;
  };

  // Given once, and if need be by whoever lets go of it last.
  template <typename T>
  Reply<T> Changed(Reply<T> reply) {
    return [&cluster = cluster_, reply = std::move(reply)](Result<T> answer) mutable {
      if (answer.ok()) cluster.Change(*answer);
      reply(std::move(answer));
    };
  }
  template <typename T>
  class Answer {
   public:
    Answer(UniqueFunction<void(Result<T>)> give, std::string dropped)
        : give_(std::move(give)), dropped_(std::move(dropped)) {}
    Answer(const Answer&) = delete;
    Answer& operator=(const Answer&) = delete;
    ~Answer() {
      if (give_) Give(Status(Code::kUnavailable, reasons::kPeerDown, dropped_));
    }
    void Give(Result<T> result) { std::exchange(give_, nullptr)(std::move(result)); }

   private:
    UniqueFunction<void(Result<T>)> give_;
    std::string dropped_;
  };

  template <typename T, typename F>
  void Call(const std::string& method, Reply<T> reply, F call) {
    if (Status there = cluster_.Reachable(self_, peer_, method); !there.ok()) {
      cluster_.CountFailed(method);
      return loop_.Post([reply = std::move(reply), there]() mutable { reply(there); });
    }
    auto shared = std::make_shared<Reply<T>>(std::move(reply));
    const uint64_t number = pending_->next++;
    pending_->calls[number] = [shared](Status why) { (*shared)(std::move(why)); };
    if (cluster_.Hangs(method)) return;
    // An answer finds its way back only while the network is whole.
    auto back = [&cluster = cluster_, self = self_, peer = peer_, method, pending = pending_,
                 number, shared](Result<T> result) {
      Status whole = cluster.Reachable(self, peer, method);
      Task give = [&cluster, self, pending, number, shared, result = std::move(result),
                   whole]() mutable {
        cluster.PostTask(self,
                         [pending, number, shared, result = std::move(result), whole]() mutable {
                           if (pending->calls.erase(number) == 0) return;
                           if (!whole.ok()) return (*shared)(whole);
                           (*shared)(std::move(result));
                         });
      };
      if (!cluster.HoldsAnswer(method, give)) give();
    };
    // What asked is kept until all is over: a call that the other side drops, since it has ended,
    // is answered here, without the cluster's lock.
    auto answer = std::make_shared<Answer<T>>(std::move(back), "node " + peer_ + " has ended");
    Task go = [&cluster = cluster_, peer = peer_, call, answer]() mutable {
      cluster.PostTo(peer, [call, answer](PeerApi& api) mutable {
        call(api, [answer](Result<T> result) { answer->Give(std::move(result)); });
      });
    };
    if (!cluster_.Holds(method, go)) go();
  }

  EngineCluster& cluster_;
  const std::string self_;
  const std::string peer_;
  Executor& loop_;
  const std::shared_ptr<Pending> pending_ = std::make_shared<Pending>();
};

class DirectDialer final : public PeerDialer {
 public:
  DirectDialer(EngineCluster& cluster, std::string node)
      : cluster_(cluster), node_(std::move(node)) {}

  std::unique_ptr<PeerApi> Dial(const std::string& name, const std::string&) override {
    return std::make_unique<DirectPeer>(cluster_, node_, name, *loop_);
  }
  void SetLoop(Executor& loop) { loop_ = &loop; }

 private:
  EngineCluster& cluster_;
  const std::string node_;
  Executor* loop_ = nullptr;
};

}  // namespace

std::unique_ptr<PeerDialer> MakeDirectDialer(EngineCluster& cluster, const std::string& node) {
  return std::make_unique<DirectDialer>(cluster, node);
}

void SetReplyLoop(PeerDialer& dialer, Executor& loop) {
  static_cast<DirectDialer&>(dialer).SetLoop(loop);
}

}  // namespace onecopy::testing
