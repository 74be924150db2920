// A connection's session, which lives on the engine's thread, as the thread `attach` sees it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/engine/api/ring_api.h"
#include "daemon/engine/api/slab_api.h"
#include "daemon/engine/registry/sessions.h"
#include "onecopy/result.h"
#include "transport/core/executor.h"
#include "transport/core/unique_function.h"
#include "transport/os/closer.h"
#include "transport/os/event_loop.h"

namespace onecopy::attach {

// Thread `attach` only. Everything is posted to the engine in the order in which it is asked for,
// so the end of a session comes after its opening, also where nobody waits for the answer any more.
class EngineSession {
 public:
  template <typename T>
  using Answer = UniqueFunction<void(Result<T>)>;

  // Answers run on `thread`, unless it has ended.
  EngineSession(Executor& engine, engine::Sessions& sessions, engine::RingApi* rings,
                engine::SlabApi* slabs, std::shared_ptr<os::LoopThread> thread);
  ~EngineSession();  // ends the session
  EngineSession(const EngineSession&) = delete;
  EngineSession& operator=(const EngineSession&) = delete;

  // Once. Answers with the session's token.
  void Open(engine::ClientIdentity identity, Answer<std::string> answer);
  // After Open was answered with success. Answers with the number that names the descriptor,
  // of a file or of memory.
  void Deposit(os::PassedFd fd, bool file, Answer<uint64_t> answer);
  // Likewise, where there are rings.
  bool has_rings() const { return rings_ != nullptr; }
  void OpenRing(Answer<engine::RingGiven> answer);
  void OpenRoute(Endpoint source, Endpoint destination, Answer<engine::RingRoute> answer);
  // Likewise, where there are slabs.
  bool has_slabs() const { return slabs_ != nullptr; }
  void OpenSlab(Answer<engine::SlabGiven> answer);

 private:
  // On the engine's thread.
  struct There {
    explicit There(engine::Sessions& sessions) : sessions(sessions) {}
    engine::Sessions& sessions;
    std::optional<engine::SessionId> id;
    std::string who;  // for the audit log, as `from`
    std::string from;
  };

  // On the engine's thread.
  static void Audit(const There& there, std::string_view what, std::string_view on,
                    const Status& why);

  // Brings an answer of the engine's to what was asked for to the thread `attach`.
  template <typename T>
  engine::Reply<T> Bring(std::string what, std::string on, Answer<T> answer);

  Executor& engine_;
  engine::RingApi* const rings_;
  engine::SlabApi* const slabs_;
  std::shared_ptr<There> there_;
  std::shared_ptr<os::LoopThread> thread_;
};

}  // namespace onecopy::attach
