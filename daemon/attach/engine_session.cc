#include "daemon/attach/engine_session.h"

#include <utility>

#include "daemon/log/audit.h"

namespace onecopy::attach {

EngineSession::EngineSession(engine::Turns engine, engine::Owner payer, engine::Sessions& sessions,
                             const Asked& asked, std::shared_ptr<os::LoopThread> thread)
    : engine_(std::move(engine)),
      payer_(std::move(payer)),
      asked_(asked),
      there_(std::make_shared<There>(sessions)),
      thread_(std::move(thread)) {}

EngineSession::~EngineSession() {
  Post([there = there_] {
    if (there->id) there->sessions.Close(*there->id);
  });
}

void EngineSession::Open(engine::ClientIdentity identity, Answer<std::string> answer) {
  Post([there = there_, thread = thread_, identity = std::move(identity),
        answer = std::move(answer)]() mutable {
    if (there->id) there->sessions.Close(*std::exchange(there->id, std::nullopt));
    Result<engine::Sessions::Opened> opened = there->sessions.Open(identity);
    if (opened.ok()) there->id = opened->id;
    there->who = opened.ok() ? there->sessions.PrincipalOf(opened->id)->ToString()
                             : "uid " + identity.uid.ToString();
    there->from = identity.ToString();
    Audit(*there, "Attach", {}, opened.ok() ? OkStatus() : opened.status());
    thread->loop().Post([opened = std::move(opened), answer = std::move(answer)]() mutable {
      if (!opened.ok()) return answer(opened.status());
      answer(std::move(opened->token));
    });
  });
}

void EngineSession::Deposit(os::PassedFd fd, bool file, Answer<uint64_t> answer) {
  Post([there = there_, thread = thread_, fd = std::move(fd), file,
        answer = std::move(answer)]() mutable {
    Result<uint64_t> fd_handle =
        there->sessions.Deposit(there->id.value_or(engine::SessionId()), std::move(fd), file);
    thread->loop().Post([fd_handle = std::move(fd_handle), answer = std::move(answer)]() mutable {
      answer(std::move(fd_handle));
    });
  });
}

void EngineSession::Audit(const There& there, std::string_view what, std::string_view on,
                          const Status& why) {
  audit::Write({.who = there.who, .from = there.from, .what = what, .on = on, .why = why});
}

template <typename T>
engine::Reply<T> EngineSession::Bring(std::string what, std::string on, Answer<T> answer) {
  return [there = there_, thread = thread_, what = std::move(what), on = std::move(on),
          answer = std::move(answer)](Result<T> result) mutable {
    Audit(*there, what, on, result.ok() ? OkStatus() : result.status());
    thread->loop().Post([result = std::move(result), answer = std::move(answer)]() mutable {
      answer(std::move(result));
    });
  };
}

void EngineSession::OpenRing(Answer<engine::RingGiven> answer) {
  Post([rings = asked_.rings, there = there_,
        reply = Bring("OpenRing", {}, std::move(answer))]() mutable {
    rings->OpenRing(there->id.value_or(engine::SessionId()), std::move(reply));
  });
}

void EngineSession::OpenRoute(Endpoint source, Endpoint destination,
                              Answer<engine::RingRoute> answer) {
  std::string on = source.ToString() + " -> " + destination.ToString();
  Post([rings = asked_.rings, there = there_, source = std::move(source),
        destination = std::move(destination),
        reply = Bring("OpenRoute", std::move(on), std::move(answer))]() mutable {
    rings->OpenRoute(there->id.value_or(engine::SessionId()), std::move(source),
                     std::move(destination), std::move(reply));
  });
}

void EngineSession::OpenSlab(Answer<engine::SlabGiven> answer) {
  Post([slabs = asked_.slabs, there = there_,
        reply = Bring("OpenSlab", {}, std::move(answer))]() mutable {
    slabs->OpenSlab(there->id.value_or(engine::SessionId()), std::move(reply));
  });
}

void EngineSession::MapBuffer(std::string node, std::string buffer,
                              Answer<engine::MappingGiven> answer) {
  std::string on = node.empty() ? buffer : node + ":" + buffer;
  Post([mappings = asked_.mappings, there = there_, node = std::move(node),
        buffer = std::move(buffer),
        reply = Bring("MapBuffer", std::move(on), std::move(answer))]() mutable {
    mappings->MapBuffer(there->id.value_or(engine::SessionId()), node, buffer, std::move(reply));
  });
}

}  // namespace onecopy::attach
