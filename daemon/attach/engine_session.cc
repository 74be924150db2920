#include "daemon/attach/engine_session.h"

#include <utility>

namespace onecopy::attach {

EngineSession::EngineSession(Executor& engine, engine::Sessions& sessions, engine::RingApi* rings,
                             std::shared_ptr<os::LoopThread> thread)
    : engine_(engine),
      rings_(rings),
      there_(std::make_shared<There>(sessions)),
      thread_(std::move(thread)) {}

EngineSession::~EngineSession() {
  engine_.Post([there = there_] {
    if (there->id) there->sessions.Close(*there->id);
  });
}

void EngineSession::Open(engine::ClientIdentity identity, Answer<std::string> answer) {
  engine_.Post([there = there_, thread = thread_, identity = std::move(identity),
                answer = std::move(answer)]() mutable {
    Result<engine::Sessions::Opened> opened = there->sessions.Open(identity);
    if (opened.ok()) there->id = opened->id;
    thread->loop().Post([opened = std::move(opened), answer = std::move(answer)]() mutable {
      if (!opened.ok()) return answer(opened.status());
      answer(std::move(opened->token));
    });
  });
}

void EngineSession::Deposit(os::UniqueFd fd, Answer<uint64_t> answer) {
  engine_.Post([there = there_, thread = thread_, fd = std::move(fd),
                answer = std::move(answer)]() mutable {
    Result<uint64_t> fd_handle =
        there->sessions.Deposit(there->id.value_or(SessionId()), std::move(fd));
    thread->loop().Post([fd_handle = std::move(fd_handle), answer = std::move(answer)]() mutable {
      answer(std::move(fd_handle));
    });
  });
}

template <typename T>
engine::Reply<T> EngineSession::Bring(Answer<T> answer) {
  return [thread = thread_, answer = std::move(answer)](Result<T> result) mutable {
    thread->loop().Post([result = std::move(result), answer = std::move(answer)]() mutable {
      answer(std::move(result));
    });
  };
}

void EngineSession::OpenRing(Answer<engine::RingGiven> answer) {
  engine_.Post([rings = rings_, there = there_, reply = Bring(std::move(answer))]() mutable {
    rings->OpenRing(there->id.value_or(SessionId()), std::move(reply));
  });
}

void EngineSession::OpenRoute(engine::Endpoint source, engine::Endpoint destination,
                              Answer<engine::RingRoute> answer) {
  engine_.Post([rings = rings_, there = there_, source = std::move(source),
                destination = std::move(destination), reply = Bring(std::move(answer))]() mutable {
    rings->OpenRoute(there->id.value_or(SessionId()), std::move(source), std::move(destination),
                     std::move(reply));
  });
}

}  // namespace onecopy::attach
