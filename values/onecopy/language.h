// The language that these headers are written in. Each includes this one first, so that another
// language is refused in these words.
#pragma once

#if !defined(__cplusplus) || __cplusplus <= 201703L
#error "onecopy needs C++20: compile with -std=c++20 or later (CMake: CMAKE_CXX_STANDARD 20)"
#endif
