#include "bench/report/parts.h"

#include <algorithm>
#include <array>

#include "bench/measure/row_table.h"
#include "bench/measure/statistics.h"
#include "bench/report/text.h"
#include "onecopy/size.h"

namespace onecopy::bench {
namespace {

struct Section {
  const char* title;
  const char* about;
  bool (*has)(const Row& row);
};

bool Begins(const Row& row, std::string_view with) { return row.work.rfind(with, 0) == 0; }

// In order: a row is in the first that has it.
constexpr std::array<Section, 7> kSections = {{
    {"CPU time",
     "CPU seconds of the daemons per 10⁹ bytes, beside those of plain sockets in the same run.",
     [](const Row& row) { return row.unit == Unit::kSecondsPerGigabyte; }},
    {"Host memory traffic (computed)",
     "Bytes read and written in host memory for each byte moved, computed from the receipts' "
     "steps.",
     [](const Row& row) { return row.unit == Unit::kBytesPerByte; }},
    {"Direct ÷ staged", "A direct path compared with the staged path that would replace it.",
     [](const Row& row) { return Begins(row, "direct to staged"); }},
    {"Our ceilings, checked",
     "Our own plain loops compared with other programs at the same settings.",
     [](const Row& row) { return Begins(row, "ceiling check"); }},
    {"Competitors", "Other software; the ratio is to our own rate in the same run.",
     [](const Row& row) { return Begins(row, "competitor"); }},
    {"Rates", "Payload rates: each path beside its ceiling.",
     [](const Row& row) { return row.unit == Unit::kBytesPerSecond; }},
    {"Times and footprint", "Registration and allocation, time to the first byte, idle daemons.",
     [](const Row&) { return true; }},
}};

size_t SectionOf(const Row& row) {
  for (size_t i = 0; i + 1 < kSections.size(); ++i) {
    if (kSections[i].has(row)) return i;
  }
  return kSections.size() - 1;
}

std::string Cell(const std::string& text, const char* kind = "") {
  return std::string("<td") + (*kind != '\0' ? std::string(" class=\"") + kind + "\"" : "") + ">" +
         (text.empty() ? "–" : Escaped(text)) + "</td>";
}

struct Head {
  const char* text;
  bool number = false;
};

std::string Heads(const std::vector<Head>& heads) {
  std::string html = "<thead><tr>";
  for (const Head& head : heads) {
    html += std::string("<th scope=\"col\"") + (head.number ? " class=\"n\"" : "") + ">" +
            head.text + "</th>";
  }
  return html + "</tr></thead>";
}

std::string Badge(const Row& row) {
  const std::string name(RowStatusName(row.status));
  return "<td><span class=\"" + name + "\">" + name + "</span></td>";
}

std::string Numbers(const Row& row) {
  const Summary values = Summarise(row.values);
  const auto text = [&](double value) {
    return row.values.empty() ? "" : ValueText(row.unit, value);
  };
  std::string bound;
  if (row.floor) bound = "≥ " + Short(*row.floor);
  if (row.roof) bound = "≤ " + Short(*row.roof);
  if (row.limit) bound = "≤ " + ValueText(row.unit, *row.limit);
  const auto ratio = row.ratio();
  return Cell(row.bytes > 0 ? FormatBytes(row.bytes) : "", "n") + Cell(text(values.median), "n") +
         Cell(text(values.min), "n") + Cell(text(values.max), "n") +
         Cell(std::to_string(row.values.size()), "n") + Cell(row.ceiling) +
         Cell(row.ceiling_values.empty()
                  ? ""
                  : ValueText(row.unit, Summarise(row.ceiling_values).median),
              "n") +
         Cell(ratio ? Short(*ratio) : "", "n") + Cell(bound, "n");
}

std::string LineOf(const Row& row) {
  std::string why = row.reason;
  if (!row.detail.empty()) why += (why.empty() ? "" : ": ") + row.detail;
  std::string html = "<tr>" + Cell(row.work) + Cell(row.path) + Numbers(row) + Badge(row) + "</tr>";
  if (!why.empty()) {
    html += "<tr class=\"why\"><td colspan=\"12\">" + Escaped(why) + "</td></tr>";
  }
  return html;
}

// What is computed beside a work is missing where the work is.
bool IsBesideAnother(const Row& row) {
  return row.unit == Unit::kSecondsPerGigabyte || row.unit == Unit::kBytesPerByte;
}

// Each reason once, with the works that it keeps from running.
std::string WaivedTable(const std::vector<Row>& rows) {
  struct Kept {
    std::string why;
    std::vector<std::string> works;
  };
  std::vector<Kept> all;
  for (const Row& row : rows) {
    if (row.status != RowStatus::kWaived || IsBesideAnother(row)) continue;
    const std::string why = row.reason + ": " + row.detail;
    auto kept =
        std::find_if(all.begin(), all.end(), [&](const Kept& one) { return one.why == why; });
    if (kept == all.end()) kept = all.insert(all.end(), {why, {}});
    const std::string work = row.work + (row.path.empty() ? "" : " (" + row.path + ")");
    std::vector<std::string>& works = kept->works;
    if (std::find(works.begin(), works.end(), work) == works.end()) works.push_back(work);
  }
  if (all.empty()) return {};
  std::string html = "<h2>Not run on this machine</h2><div class=\"wide\"><table>" +
                     Heads({{"works"}, {"why"}}) + "<tbody>";
  for (const Kept& kept : all) {
    std::string works;
    for (const std::string& work : kept.works) works += (works.empty() ? "" : "; ") + work;
    html += "<tr>" + Cell(works) + Cell(kept.why, "long") + "</tr>";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string TargetsTable(const std::vector<Row>& rows) {
  std::string lines;
  for (const Row& row : rows) {
    if (!row.target) continue;
    const auto ratio = row.ratio();
    const bool rate = row.unit == Unit::kBytesPerSecond;
    const bool there = ratio && (rate ? *ratio >= *row.target : *ratio <= *row.target);
    const char* const outcome = !ratio ? "not measured" : there ? "reached" : "missed";
    lines += "<tr>" + Cell(row.work) + Cell(row.path) + Cell(FormatBytes(row.bytes), "n") +
             Cell(row.ceiling) + Cell(ratio ? Short(*ratio) : "", "n") +
             Cell((rate ? "≥ " : "≤ ") + Short(*row.target), "n") + "<td><span class=\"" +
             (!ratio  ? "WAIVED"
              : there ? "OK"
                      : "FAILED") +
             "\">" + outcome + "</span></td></tr>";
  }
  if (lines.empty()) return {};
  return "<h2>Targets</h2><div class=\"wide\"><table>" +
         Heads({{"work"},
                {"path"},
                {"payload", true},
                {"ceiling"},
                {"ratio", true},
                {"to reach", true},
                {""}}) +
         "<tbody>" + lines + "</tbody></table></div>\n";
}

std::string AllTables(const std::vector<Row>& rows) {
  std::array<std::string, kSections.size()> lines;
  for (const Row& row : rows) {
    if (row.status != RowStatus::kWaived) lines[SectionOf(row)] += LineOf(row);
  }
  std::string html;
  // Rates first: the rest is about them.
  for (const size_t i :
       {size_t{5}, size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{6}}) {
    if (lines[i].empty()) continue;
    html += std::string("<h2>") + kSections[i].title + "</h2><p>" + kSections[i].about +
            "</p><div class=\"wide\"><table>" +
            Heads({{"work"},
                   {"path"},
                   {"payload", true},
                   {"median", true},
                   {"min", true},
                   {"max", true},
                   {"samples", true},
                   {"ceiling"},
                   {"its median", true},
                   {"ratio", true},
                   {"OK where", true},
                   {"status"}}) +
            "<tbody>" + lines[i] + "</tbody></table></div>\n";
  }
  return html + WaivedTable(rows);
}

}  // namespace onecopy::bench
