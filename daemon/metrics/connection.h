// One connection of the metrics' server: one request, one answer. Only server.cc includes this, as
// it brings all of Beast.
#pragma once

#include <prometheus/text_serializer.h>

#include <array>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "daemon/metrics/answers.h"
#include "daemon/metrics/families.h"
#include "daemon/metrics/process_figures.h"
#include "daemon/metrics/scrapes.h"
#include "daemon/metrics/statuses.h"

namespace onecopy::metrics {

namespace beast = boost::beast;
namespace http = boost::beast::http;

// What the connections of one server share; on its thread.
struct Shared {
  Scrapes& scrapes;
  Statuses& statuses;
  ScrapeCounts& counts;
  std::function<void()> closed;  // one of them
};

using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

// Lives until its last step; every step has a deadline.
template <typename Stream>
class Connection : public std::enable_shared_from_this<Connection<Stream>> {
 public:
  Connection(Stream stream, Shared& shared) : stream_(std::move(stream)), shared_(shared) {
    parser_.header_limit(kMaxHeader);
  }
  ~Connection() { shared_.closed(); }

  void Begin() {
    Lowest().expires_after(kRequestPatience);
    if constexpr (kTls) {
      stream_.async_handshake(boost::asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](const beast::error_code& failed) {
                                if (failed) return void(++self->shared_.counts.refused);
                                self->Read();
                              });
    } else {
      Read();
    }
  }

 private:
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;
  static constexpr uint32_t kMaxHeader = 8 << 10;
  static constexpr std::chrono::seconds kRequestPatience{2};
  static constexpr std::chrono::seconds kAnswerPatience{5};
  static constexpr std::chrono::seconds kEndPatience{1};
  static constexpr unsigned kBadRequest = 400;

  beast::tcp_stream& Lowest() { return beast::get_lowest_layer(stream_); }

  void Read() {
    http::async_read(stream_, input_, parser_,
                     [self = this->shared_from_this()](const beast::error_code& failed, size_t) {
                       self->OnRead(failed);
                     });
  }

  void OnRead(const beast::error_code& failed) {
    if (failed) {
      const bool no_http = failed != http::error::end_of_stream &&
                           failed.category() == make_error_code(http::error::bad_method).category();
      if (no_http) return Settle({kBadRequest, "not a request: " + failed.message() + "\n"});
      ++shared_.counts.broken;
      return;
    }
    const auto& request = parser_.get();
    const Asked asked{std::string(request.method_string()), std::string(request.target()),
                      std::string(request[http::field::host])};
    Wanted wanted = WantedBy(asked, kTls);
    if (wanted.what == Wanted::What::kAnswer) return Settle(std::move(wanted.answer));
    Lowest().expires_never();  // Scrapes has a deadline of its own
    if (wanted.what == Wanted::What::kStatus) {
      shared_.statuses.Get([self = this->shared_from_this()](const std::string& document) {
        self->Write({200, document, "application/json"}, &ScrapeCounts::served);
      });
      return;
    }
    shared_.scrapes.Get([self = this->shared_from_this()](const engine::Figures* figures) {
      self->WriteMetrics(figures);
    });
  }

  void WriteMetrics(const engine::Figures* figures) {
    ProcessFigures process = ReadProcess();
    process.engine_answered = figures != nullptr;
    process.scrapes = shared_.counts;
    std::vector<prometheus::MetricFamily> families = FamiliesOf(process);
    if (figures != nullptr) {
      for (prometheus::MetricFamily& family : FamiliesOf(*figures)) {
        families.push_back(std::move(family));
      }
    }
    Write({200, prometheus::TextSerializer().Serialize(families),
           "text/plain; version=0.0.4; charset=utf-8"},
          &ScrapeCounts::served);
  }

  void Settle(Answer answer) {
    const bool fine = answer.status == 200;
    Write(std::move(answer), fine ? &ScrapeCounts::served : &ScrapeCounts::refused);
  }

  void Write(Answer answer, uint64_t ScrapeCounts::*count) {
    response_.version(parser_.get().version());
    response_.result(answer.status);
    response_.set(http::field::content_type, answer.type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    response_.set("Cross-Origin-Resource-Policy", "same-origin");
    response_.set("Referrer-Policy", "no-referrer");
    if (!answer.policy.empty()) response_.set("Content-Security-Policy", answer.policy);
    if (response_.result() == http::status::method_not_allowed) {
      response_.set(http::field::allow, "GET");
    }
    response_.keep_alive(false);
    response_.body() = std::move(answer.text);
    response_.prepare_payload();
    Lowest().expires_after(kAnswerPatience);
    http::async_write(
        stream_, response_,
        [self = this->shared_from_this(), count](const beast::error_code& failed, size_t) {
          ++(self->shared_.counts.*(failed ? &ScrapeCounts::broken : count));
          if (!failed) self->End();
        });
  }

  // Lets the other side read the answer to its end: a socket that is closed with bytes unread takes
  // back what it has sent.
  void End() {
    Lowest().expires_after(kEndPatience);
    if constexpr (kTls) {
      stream_.async_shutdown([self = this->shared_from_this()](const beast::error_code&) {});
    } else {
      beast::error_code ignored;
      Lowest().socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
      Discard();
    }
  }

  void Discard() {
    stream_.async_read_some(
        boost::asio::buffer(discarded_),
        [self = this->shared_from_this()](const beast::error_code& failed, size_t) {
          if (!failed) self->Discard();
        });
  }

  Stream stream_;
  Shared& shared_;
  beast::flat_static_buffer<kMaxHeader> input_;
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> response_;
  std::array<char, 4096> discarded_{};
};

}  // namespace onecopy::metrics
