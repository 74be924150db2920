// A connection's session, which lives on the engine's thread, as the thread `attach` sees it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/engine/api/mapping_api.h"
#include "daemon/engine/api/ring_api.h"
#include "daemon/engine/api/slab_api.h"
#include "daemon/engine/base/turns.h"
#include "daemon/engine/registry/sessions.h"
#include "onecopy/result.h"
#include "transport/core/base/executor.h"
#include "transport/core/base/unique_function.h"
#include "transport/os/threads/closer.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::attach {

// Thread `attach` only. Everything is posted to the engine, in turns with what others ask for, in
// the order in which it is asked for, so the end of a session comes after its opening, also where
// nobody waits for the answer any more.
class EngineSession {
 public:
  template <typename T>
  using Answer = UniqueFunction<void(Result<T>)>;

  // What the engine has beside sessions; null: it has none of it.
  struct Asked {
    engine::RingApi* rings = nullptr;
    engine::SlabApi* slabs = nullptr;
    engine::MappingApi* mappings = nullptr;
  };

  // Answers run on `thread`, unless it has ended.
  EngineSession(engine::Turns engine, engine::Owner payer, engine::Sessions& sessions,
                const Asked& asked, std::shared_ptr<os::LoopThread> thread);
  ~EngineSession();  // ends the session
  EngineSession(const EngineSession&) = delete;
  EngineSession& operator=(const EngineSession&) = delete;

  // Answers with the session's token. Once more ends the session that was opened before.
  void Open(engine::ClientIdentity identity, Answer<std::string> answer);
  // After Open was answered with success. Answers with the number that names the descriptor,
  // of a file or of memory.
  void Deposit(os::PassedFd fd, bool file, Answer<uint64_t> answer);
  // Likewise, where there are rings.
  bool has_rings() const { return asked_.rings != nullptr; }
  void OpenRing(Answer<engine::RingGiven> answer);
  void OpenRoute(Endpoint source, Endpoint destination, Answer<engine::RingRoute> answer);
  // Likewise, where there are slabs.
  bool has_slabs() const { return asked_.slabs != nullptr; }
  void OpenSlab(Answer<engine::SlabGiven> answer);
  // Likewise, where there are mappings.
  bool maps() const { return asked_.mappings != nullptr; }
  void MapBuffer(std::string node, std::string buffer, Answer<engine::MappingGiven> answer);

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

  void Post(Task task) const { engine_.Post(payer_, std::move(task)); }

  const engine::Turns engine_;
  const engine::Owner payer_;
  const Asked asked_;
  std::shared_ptr<There> there_;
  std::shared_ptr<os::LoopThread> thread_;
};

}  // namespace onecopy::attach
