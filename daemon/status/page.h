// The status page itself: one HTML document that loads nothing but /status.json of its own server.
#pragma once

#include <string>

namespace onecopy::status {

struct Page {
  std::string text;
  // Content-Security-Policy: the page's own style and script by their hashes, and requests to its
  // own server alone. Whatever else found its way into the page would not run.
  std::string policy;
};

// Made once, of page.html, page.css and page.js. Any thread.
const Page& StatusPage();

}  // namespace onecopy::status
