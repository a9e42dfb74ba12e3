// The control path of simulated devices and of the manual clock (interfaces.md 3). Thread-safety:
// none; the decision thread's.
#pragma once

#include <functional>

#include "api/api.h"
#include "gpu/simulated.h"

namespace berth::serve {

class Simulation {
 public:
  struct Hands {
    // Reads the source now and gives what it says to the service.
    std::function<void()> sample;
    // Empty unless the clock is manual. Ms, at least 0.
    std::function<void(std::int64_t)> advance;
    std::function<std::int64_t()> time_ms;
  };

  Simulation(gpu::SimulatedSource& source, Hands hands);

  // A route of the API.
  bool handle(const net::Request& request, net::Reply& reply, api::Api& api);

 private:
  struct Row;

  lease::Outcome<json::Value> device(const net::Request& request);
  lease::Outcome<json::Value> source(const net::Request& request);
  lease::Outcome<json::Value> clock(const net::Request& request);

  gpu::SimulatedSource& source_;
  Hands hands_;
};

}  // namespace berth::serve
