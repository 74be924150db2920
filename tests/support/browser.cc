#include "tests/support/browser.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace onecopy::testing {
namespace {

using Json = nlohmann::json;

constexpr int kPatienceMs = 60'000;

std::pair<os::UniqueFd, os::UniqueFd> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  return {os::UniqueFd(ends[0]), os::UniqueFd(ends[1])};
}

std::string Quoted(const std::string& text) { return Json(text).dump(); }

}  // namespace

std::string Browser::Program() {
  const char* const path = std::getenv("PATH");
  for (const char* name : {"chromium-headless-shell", "chromium"}) {
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
      const std::string program = folder + "/" + name;
      if (::access(program.c_str(), X_OK) == 0) return program;
    }
  }
  return {};
}

Browser::Browser() {
  auto [their_commands, commands] = MakePipe();
  auto [answers, their_answers] = MakePipe();
  commands_ = std::move(commands);
  answers_ = std::move(answers);
  std::vector<std::string> arguments = {"--headless",
                                        "--remote-debugging-pipe",
                                        "--user-data-dir=" + folder_ / "profile",
                                        "--no-first-run",
                                        "--no-proxy-server",
                                        "--disable-background-networking",
                                        "--disable-component-update",
                                        "--disable-dev-shm-usage",
                                        "--disable-gpu",
                                        "--window-size=1400,1000"};
  if (::geteuid() == 0)
    arguments.emplace_back("--no-sandbox");  // it refuses to run as root otherwise
  // It reads descriptor 3 and writes 4.
  const auto in_child = [in = their_commands.get(), out = their_answers.get()] {
    constexpr int kAbove = 10;
    const int high_in = ::fcntl(in, F_DUPFD_CLOEXEC, kAbove);
    const int high_out = ::fcntl(out, F_DUPFD_CLOEXEC, kAbove);
    ::dup2(high_in, 3);
    ::dup2(high_out, 4);
  };
  process_ = std::make_unique<Process>(ProcessOptions{.program = Program(),
                                                      .arguments = arguments,
                                                      .error_file = folder_ / "log",
                                                      .in_child = in_child});
  const Json target = Send("Target.createTarget", {{"url", "about:blank"}}, {});
  const Json attached =
      Send("Target.attachToTarget", {{"targetId", target.at("targetId")}, {"flatten", true}}, {});
  session_ = attached.at("sessionId");
  for (const char* domain : {"Page", "Runtime", "Log", "Network"}) {
    Call(std::string(domain) + ".enable");
  }
}

// What Debian installs is a script that waits for the browser: that one has to end first.
Browser::~Browser() {
  try {
    Send("Browser.close", Json::object(), {});
    process_->Wait();
  } catch (const std::exception&) {  // it has ended, or the end of the pipes ends it
  }
}

Json Browser::Receive() {
  while (true) {
    const size_t end = unread_.find('\0');
    if (end != std::string::npos) {
      const Json message = Json::parse(unread_.substr(0, end));
      unread_.erase(0, end + 1);
      return message;
    }
    pollfd ready{answers_.get(), POLLIN, 0};
    if (::poll(&ready, 1, kPatienceMs) <= 0) throw std::runtime_error("the browser is silent");
    std::array<char, 65536> piece{};
    const ssize_t count = ::read(answers_.get(), piece.data(), piece.size());
    if (count <= 0) {
      throw std::runtime_error("the browser has ended: " + ReadFile(folder_ / "log"));
    }
    unread_.append(piece.data(), static_cast<size_t>(count));
  }
}

void Browser::Note(const Json& event) {
  const std::string method = event.value("method", "");
  const Json parameters = event.value("params", Json::object());
  if (method == "Network.requestWillBeSent") {
    requests_.push_back(parameters.at("request").at("url"));
  } else if (method == "Runtime.exceptionThrown") {
    complaints_.push_back(parameters.at("exceptionDetails").dump());
  } else if (method == "Log.entryAdded" && parameters.at("entry").at("level") == "error") {
    complaints_.push_back(parameters.at("entry").at("text"));
  }
}

Json Browser::Send(const std::string& method, const Json& parameters, const std::string& session) {
  const uint64_t id = next_++;
  Json command = {{"id", id}, {"method", method}, {"params", parameters}};
  if (!session.empty()) command["sessionId"] = session;
  const std::string text = command.dump() + '\0';
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::write(commands_.get(), text.data() + sent, text.size() - sent);
    if (count <= 0) throw std::runtime_error("the browser does not take " + method);
    sent += static_cast<size_t>(count);
  }
  while (true) {
    const Json message = Receive();
    if (message.value("id", uint64_t{0}) != id) {
      Note(message);
      continue;
    }
    if (message.contains("error")) {
      throw std::runtime_error(method + ": " + message.at("error").dump());
    }
    return message.at("result");
  }
}

Json Browser::Call(const std::string& method, const Json& parameters) {
  return Send(method, parameters, session_);
}

void Browser::RunInNewPages(const std::string& script) {
  Call("Page.addScriptToEvaluateOnNewDocument", {{"source", script}});
}

void Browser::Open(const std::string& url) {
  const Json opened = Call("Page.navigate", {{"url", url}});
  if (opened.contains("errorText")) throw std::runtime_error(url + ": " + opened.dump());
  WaitFor("location.href.startsWith(" + Quoted(url) + ") && document.readyState === 'complete'");
}

Json Browser::Evaluate(const std::string& expression) {
  const Json answer =
      Call("Runtime.evaluate",
           {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
  if (answer.contains("exceptionDetails")) {
    throw std::runtime_error(expression + ": " + answer.at("exceptionDetails").dump());
  }
  return answer.at("result").value("value", Json());
}

void Browser::WaitFor(const std::string& expression) {
  WaitUntil("in the page: " + expression, [&] { return Evaluate(expression) == Json(true); });
}

void Browser::Press(const std::string& key) {
  static const std::vector<std::pair<std::string, int>> kCodes = {
      {"Tab", 9},        {"Escape", 27},  {"End", 35},        {"Home", 36},
      {"ArrowLeft", 37}, {"ArrowUp", 38}, {"ArrowRight", 39}, {"ArrowDown", 40}};
  for (const auto& [name, code] : kCodes) {
    if (name != key) continue;
    for (const char* type : {"rawKeyDown", "keyUp"}) {
      Call("Input.dispatchKeyEvent",
           {{"type", type}, {"key", key}, {"code", key}, {"windowsVirtualKeyCode", code}});
    }
    return;
  }
  throw std::runtime_error("no code for the key " + key);
}

void Browser::Hover(const std::string& selector) {
  const Json at = Evaluate("(() => { const e = document.querySelector(" + Quoted(selector) +
                           "); e.scrollIntoView({block: 'center'}); const r = "
                           "e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / "
                           "2]; })()");
  Call("Input.dispatchMouseEvent", {{"type", "mouseMoved"}, {"x", at.at(0)}, {"y", at.at(1)}});
}

void Browser::PreferDark(bool dark) {
  Call("Emulation.setEmulatedMedia",
       {{"features",
         Json::array({{{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}}})}});
}

}  // namespace onecopy::testing
