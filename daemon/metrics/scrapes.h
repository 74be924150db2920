// Asks the engine for its figures, and waits no longer than a scrape may. Nothing blocks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "daemon/engine/api/figures.h"
#include "transport/core/base/unique_function.h"

namespace onecopy::metrics {

// On the thread of its io_context. It asks the engine one question at a time: scrapes that come
// meanwhile wait for the same answer, so an engine that hangs is asked only once. The engine may
// answer after this object has gone.
class Scrapes {
 public:
  // `ask` must not block; it replies on any thread, or never.
  using Ask = std::function<void(UniqueFunction<void(engine::Figures)> reply)>;
  using Reply = UniqueFunction<void(const engine::Figures*)>;

  Scrapes(boost::asio::io_context& io, Ask ask, std::chrono::milliseconds patience);
  ~Scrapes();

  // Replies once, later; with null where there was no answer for that long.
  void Get(Reply reply);

 private:
  struct Waiting {
    Reply reply;
    boost::asio::steady_timer timer;
  };
  struct Inbox;

  void Answer(const engine::Figures& figures);

  boost::asio::io_context& io_;
  const Ask ask_;
  const std::chrono::milliseconds patience_;
  bool asked_ = false;
  uint64_t next_ = 0;
  std::map<uint64_t, Waiting> waiting_;
  const std::shared_ptr<Inbox> inbox_;
};

}  // namespace onecopy::metrics
