// Complaints about one device, as one line for people.
// Thread-safety: a function of its arguments.
#pragma once

#include <string>
#include <string_view>

namespace berth::gpu {

// Appends a sentence to those that are there, unless there are many already. An empty one is none.
void add_problem(std::string& problems, std::string_view problem);

}  // namespace berth::gpu
