// How the page looks.
#pragma once

namespace onecopy::bench {

extern const char kStyle[];

}  // namespace onecopy::bench
