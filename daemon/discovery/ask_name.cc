#include "daemon/discovery/ask_name.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/core/base/name.h"
#include "transport/tls/handshake.h"

namespace onecopy::discovery {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAtOnce = 64;
constexpr std::chrono::milliseconds kLookEvery{100};

// One conversation, which never waits.
class Question {
 public:
  Question(const os::HostPort& where, const tls::Identity& identity, Clock::time_point until)
      : where_(where), identity_(identity), until_(until) {
    Result<os::UniqueFd> fd = os::ConnectTcp(where);
    if (fd.ok()) {
      fd_ = *std::move(fd);
    } else {
      End(fd.status());
    }
  }

  bool done() const { return answer_.has_value(); }
  Result<std::string> Take() { return *std::move(answer_); }
  pollfd wait() const { return {fd_.get(), events_, 0}; }

  void Step(bool ready) {
    if (Clock::now() >= until_) return End(Down("no answer in time"));
    if (!ready) return;
    if (handshake_ == nullptr) {
      if (const Status error = os::ConnectError(fd_.get()); !error.ok()) return End(error);
      auto begun = tls::Handshake::Begin(identity_, tls::Side::kClient, fd_.get(),
                                         tls::Handshake::Protocol::kGrpc);
      if (!begun.ok()) return End(begun.status());
      handshake_ = *std::move(begun);
    }
    const auto next = handshake_->Step();
    if (!next.ok()) return End(next.status());
    if (*next == tls::Handshake::Next::kDone) {
      return End(NodeOf(handshake_->presented(), identity_));
    }
    events_ = *next == tls::Handshake::Next::kRead ? POLLIN : POLLOUT;
  }

  void Abandon() {
    if (!done()) End(Down("not asked to the end"));
  }

 private:
  Status Down(const std::string& why) const {
    return {Code::kUnavailable, reasons::kPeerDown, where_.ToString() + ": " + why};
  }
  void End(Result<std::string> answer) {
    answer_ = std::move(answer);
    handshake_.reset();
    fd_ = os::UniqueFd();
  }

  const os::HostPort where_;
  const tls::Identity& identity_;
  const Clock::time_point until_;
  os::UniqueFd fd_;
  std::unique_ptr<tls::Handshake> handshake_;
  short events_ = POLLOUT;
  std::optional<Result<std::string>> answer_;
};

void RunAll(std::vector<std::unique_ptr<Question>>& questions, const std::function<bool()>& ended) {
  while (!ended()) {
    std::vector<pollfd> waits;
    std::vector<Question*> waiting;
    for (const auto& question : questions) {
      if (question->done()) continue;
      waits.push_back(question->wait());
      waiting.push_back(question.get());
    }
    if (waiting.empty()) return;
    ::poll(waits.data(), waits.size(), static_cast<int>(kLookEvery.count()));
    for (size_t i = 0; i < waiting.size(); ++i) waiting[i]->Step(waits[i].revents != 0);
  }
  for (const auto& question : questions) question->Abandon();
}

}  // namespace

Result<std::string> NodeOf(const tls::Chain& presented, const tls::Identity& identity) {
  constexpr std::string_view kUri = "URI:";
  constexpr std::string_view kDns = "DNS:";
  const auto refused = [](const std::string& why) {
    return Status(Code::kUnauthenticated, reasons::kCertRejected, why);
  };
  if (presented.empty()) return refused("no certificate is presented");
  std::vector<std::string> by_uri;
  std::vector<std::string> by_dns;
  for (const std::string& name : presented.front().Names()) {
    const std::string_view text(name);
    if (text.starts_with(kUri) && text.substr(kUri.size()).starts_with(tls::kNodeUri)) {
      const std::string_view node = text.substr(kUri.size() + tls::kNodeUri.size());
      if (IsName(node)) by_uri.emplace_back(node);
    } else if (text.starts_with(kDns) && IsName(text.substr(kDns.size()))) {
      by_dns.emplace_back(text.substr(kDns.size()));
    }
  }
  std::vector<std::string>& names = by_uri.empty() ? by_dns : by_uri;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.empty()) return refused("the certificate names no node");
  if (names.size() > 1) {
    return refused("the certificate names several nodes, as " + names[0] + " and " + names[1]);
  }
  ONECOPY_RETURN_IF_ERROR(identity.Verify(presented, names.front(), tls::Side::kServer));
  return names.front();
}

std::vector<Result<std::string>> AskNames(const std::vector<os::HostPort>& where,
                                          const std::shared_ptr<const tls::Identity>& identity,
                                          std::chrono::milliseconds limit,
                                          const std::function<bool()>& ended) {
  std::vector<Result<std::string>> answers;
  for (size_t from = 0; from < where.size(); from += kAtOnce) {
    const size_t to = std::min(where.size(), from + kAtOnce);
    std::vector<std::unique_ptr<Question>> questions;
    for (size_t i = from; i < to; ++i) {
      questions.push_back(std::make_unique<Question>(where[i], *identity, Clock::now() + limit));
    }
    RunAll(questions, ended);
    for (const auto& question : questions) answers.push_back(question->Take());
  }
  return answers;
}

}  // namespace onecopy::discovery
