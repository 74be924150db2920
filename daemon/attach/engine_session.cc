#include "daemon/attach/engine_session.h"

#include <utility>

namespace onecopy::attach {

EngineSession::EngineSession(Executor& engine, engine::Sessions& sessions,
                             std::shared_ptr<os::LoopThread> thread)
    : engine_(engine), there_(std::make_shared<There>(sessions)), thread_(std::move(thread)) {}

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

}  // namespace onecopy::attach
