// A real browser without a window, driven by its DevTools protocol through pipes.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

// One tab of Chromium. Any failure throws and names the call. One thread at a time.
class Browser {
 public:
  using Json = nlohmann::json;

  // The program: chromium-headless-shell or chromium on PATH; empty where neither is.
  static std::string Program();

  Browser();
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  // `script` runs in each page that is opened from now on, before the page's own.
  void RunInNewPages(const std::string& script);
  void Open(const std::string& url);
  // The value of an expression of JavaScript in the page; a promise is waited for.
  Json Evaluate(const std::string& expression);
  // Waits until the expression is true.
  void WaitFor(const std::string& expression);

  void Press(const std::string& key);  // "Tab", "ArrowDown", …
  // Moves the mouse to the middle of the first element that the CSS selector fits.
  void Hover(const std::string& selector);
  void PreferDark(bool dark);

  // What the pages have asked for so far, and complaints: exceptions, and what the browser logged
  // as an error, such as a violation of the page's Content-Security-Policy.
  const std::vector<std::string>& requests() const { return requests_; }
  const std::vector<std::string>& complaints() const { return complaints_; }

  // A command of the protocol, to the tab; its result.
  Json Call(const std::string& method, const Json& parameters = Json::object());

 private:
  Json Send(const std::string& method, const Json& parameters, const std::string& session);
  Json Receive();
  void Note(const Json& event);

  TempFolder folder_;
  os::UniqueFd commands_;
  os::UniqueFd answers_;
  std::unique_ptr<Process> process_;
  std::string unread_;
  std::string session_;
  uint64_t next_ = 1;
  std::vector<std::string> requests_;
  std::vector<std::string> complaints_;
};

}  // namespace onecopy::testing
