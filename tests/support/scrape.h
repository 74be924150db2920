// What Prometheus would read of a daemon.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

// One page of metrics.
class Scrape {
 public:
  struct Family {
    std::string type;
    bool has_help = false;
    std::set<std::string> labels;  // of all of its series; without "le"
  };
  using Labels = std::map<std::string, std::string>;

  explicit Scrape(std::string text);

  const std::string& text() const { return text_; }
  const std::map<std::string, Family>& families() const { return families_; }
  size_t series() const { return series_.size(); }
  // The sum of the series that have these labels, others too; 0 where there is none.
  double Sum(const std::string& name, const Labels& labels = {}) const;
  bool Has(const std::string& name, const Labels& labels = {}) const;

 private:
  struct Series {
    std::string name;
    Labels labels;
    double value = 0;
    bool Fits(const std::string& of, const Labels& wanted) const;
  };

  std::string text_;
  std::map<std::string, Family> families_;
  std::vector<Series> series_;
};

inline const std::string kGetMetrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

// Connected to HOST:PORT; a receive buffer of that many bytes, 0: the system's.
os::UniqueFd Dial(const std::string& address, int receive_buffer = 0);
void Send(int socket, const std::string& text);
// All that comes until the other side closes, or has said nothing for a minute.
std::string ReadToEnd(int socket);

// The answer to one HTTP request, its head included; empty where there was none.
std::string Ask(const std::string& address, const std::string& request);
// GET /metrics; throws where that is not answered by 200.
Scrape ScrapeOf(const std::string& address);

}  // namespace onecopy::testing
