// Small pieces of HTML.
#pragma once

#include <string>
#include <string_view>

namespace onecopy::bench {

// Text as HTML shows it, in elements and in attributes between double quotes.
std::string Escaped(std::string_view text);

// A coordinate or another number of a drawing: "12.5".
std::string Coordinate(double value);

// "26.2", "0.984", "1.2e-05": three digits that say something.
std::string Short(double value);

}  // namespace onecopy::bench
