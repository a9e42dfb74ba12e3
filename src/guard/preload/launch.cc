#include "guard/preload/launch.h"

#include "guard/preload/captures.h"
#include "guard/preload/contexts.h"
#include "guard/preload/depth.h"
#include "guard/sys.h"

namespace berth::guard {

namespace {

constexpr std::int64_t kFirstGuessNs = 20'000;
constexpr std::int64_t kBatchNs = 2'000'000;       // times the share
constexpr std::int64_t kCapacityNs = 100'000'000;  // times the share
constexpr std::uint64_t kSliceNs = 5'000'000;
constexpr std::int64_t kLongestNs = 60'000'000'000;  // no estimate is taken for more
constexpr std::int64_t kWhole = 1000;

enum SampleState : std::uint8_t { sample_idle, sample_open, sample_closed };

std::int64_t share_of(int target) {
  const PolicyDevice* policy = policy_of(target);
  if (policy == nullptr) return kWhole;
  std::int64_t share = policy->share_now.load(std::memory_order_relaxed);
  if (share < 1) share = 1;
  return share > kWhole ? kWhole : share;
}

DeviceAccount& account(int target) {
  return g_grant.view.device(static_cast<std::uint32_t>(g_grant.account_index[target]));
}

// Adds what has become due since the last refill; one of those who come at the same time does it.
void refill(DeviceAccount& device, std::int64_t share) {
  const std::uint64_t now = sys::monotonic_ns();
  std::uint64_t last = device.refill_ns.load(std::memory_order_acquire);
  if (now <= last && last - now < std::uint64_t{kSliceNs} * 1000) return;
  std::uint64_t elapsed = now - last;  // a clock from the future (garbage) counts as long ago
  const auto most = static_cast<std::uint64_t>(kCapacityNs);
  if (elapsed > most) elapsed = most;
  if (!device.refill_ns.compare_exchange_strong(last, now, std::memory_order_acq_rel)) return;
  const std::int64_t capacity = kCapacityNs * share / kWhole;
  const std::int64_t due = static_cast<std::int64_t>(elapsed) * share / kWhole;
  std::int64_t tokens = device.tokens.load(std::memory_order_acquire);
  std::int64_t next = 0;
  do {
    // The longest debt is one kernel of every process; more is garbage.
    const std::int64_t from = tokens < -kLongestNs || tokens > kCapacityNs ? 0 : tokens;
    next = from + due < capacity ? from + due : capacity;
  } while (!device.tokens.compare_exchange_weak(tokens, next, std::memory_order_acq_rel));
}

// Takes a batch and the thread's debt; sleeps while the bucket is dry.
std::int64_t draw(int target, std::int64_t debt) {
  DeviceAccount& device = account(target);
  const ErrorKeeper keeper;
  for (;;) {
    const std::int64_t share = share_of(target);
    const std::int64_t batch = kBatchNs * share / kWhole;
    if (share == kWhole) return debt + kBatchNs;
    refill(device, share);
    std::int64_t tokens = device.tokens.load(std::memory_order_acquire);
    while (tokens > 0) {
      if (device.tokens.compare_exchange_weak(tokens, tokens - debt - batch,
                                              std::memory_order_acq_rel)) {
        return debt + batch;
      }
    }
    const auto dry = static_cast<std::uint64_t>(1 - tokens);
    const std::uint64_t wait =
        dry > kSliceNs ? kSliceNs : dry * kWhole / static_cast<std::uint64_t>(share);
    sys::sleep_until(sys::monotonic_ns() + (wait > kSliceNs ? kSliceNs : wait));
  }
}

// The middle one. A measurement also holds what other processes ran between the two events, so one
// that stands alone is left out.
std::int64_t median(std::int64_t a, std::int64_t b, std::int64_t c) {
  const std::int64_t low = a < b ? a : b;
  const std::int64_t high = a < b ? b : a;
  if (c < low) return low;
  return c > high ? high : c;
}

void learn(Estimate& estimate, std::uint64_t function, std::int64_t measured) {
  const std::int64_t old = estimate.cost_ns.load(std::memory_order_relaxed);
  if (estimate.measured.load(std::memory_order_relaxed) != function) {
    estimate.last_ns[0].store(measured, std::memory_order_relaxed);
    estimate.last_ns[1].store(measured, std::memory_order_relaxed);
    estimate.cost_ns.store(measured, std::memory_order_relaxed);
  } else {
    const std::int64_t last = estimate.last_ns[0].load(std::memory_order_relaxed);
    const std::int64_t usual =
        median(measured, last, estimate.last_ns[1].load(std::memory_order_relaxed));
    estimate.last_ns[1].store(last, std::memory_order_relaxed);
    estimate.last_ns[0].store(measured, std::memory_order_relaxed);
    estimate.cost_ns.store((3 * old + usual) / 4, std::memory_order_relaxed);
  }
  estimate.measured.store(function, std::memory_order_release);
}

// Reads the sample that is closed, if the GPU is done with it.
void read_sample(Local& own, Context& context) {
  if (context.sample.load(std::memory_order_acquire) != sample_closed ||
      driver<Name::cuEventQuery>(context.end) != kCudaSuccess) {
    return;
  }
  float milliseconds = 0;
  if (driver<Name::cuEventElapsedTime>(&milliseconds, context.start, context.end) == kCudaSuccess &&
      milliseconds >= 0) {
    auto measured = static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
    if (measured > kLongestNs) measured = kLongestNs;
    Estimate& estimate = estimate_of(own, context.sampled);
    const auto function = reinterpret_cast<std::uint64_t>(context.sampled);
    if (estimate.function.load() == function) learn(estimate, function, measured);
  }
  context.sample.store(sample_idle, std::memory_order_release);
}

}  // namespace

void Launch::open_sample(CuHandle function, std::uint32_t context) {
  if (context >= kContexts) return;
  Local& own = *local();
  Context& entry = own.contexts[context];
  read_sample(own, entry);
  std::uint8_t idle = sample_idle;
  if (!entry.sample.compare_exchange_strong(idle, sample_open, std::memory_order_acq_rel)) return;
  const bool made =
      entry.end != nullptr || (driver<Name::cuEventCreate>(&entry.start, 0U) == kCudaSuccess &&
                               driver<Name::cuEventCreate>(&entry.end, 0U) == kCudaSuccess);
  if (!made || driver<Name::cuEventRecord>(entry.start, stream_) != kCudaSuccess) {
    entry.sample.store(sample_idle, std::memory_order_release);
    return;
  }
  entry.sampled = function;
  context_ = context;
}

void Launch::close_sample(int code) {
  Context& entry = local()->contexts[context_];
  const bool good =
      code == kCudaSuccess && driver<Name::cuEventRecord>(entry.end, stream_) == kCudaSuccess;
  entry.sample.store(good ? sample_closed : sample_idle, std::memory_order_release);
}

void Launch::pay(CuHandle function) {
  Local* own = local();
  if (own == nullptr) return;
  // One device in the grant is the usual case; with more, the context tells.
  const bool only = g_grant.policy->n_devices == 1;
  const Place place = current_place();
  const int target = only ? 0 : place.target;
  if (target < 0 || target == kDenied || g_grant.account_index[target] < 0 ||
      is_capturing(stream_)) {
    return;
  }
  Estimate& estimate = estimate_of(*own, function);
  const auto key = reinterpret_cast<std::uint64_t>(function);
  if (estimate.function.load(std::memory_order_relaxed) != key) {
    estimate.measured.store(0, std::memory_order_relaxed);
    estimate.cost_ns.store(kFirstGuessNs, std::memory_order_relaxed);
    estimate.function.store(key, std::memory_order_release);
  }
  if (!only && t_own.target_plus_one != target + 1) {
    t_own.left_ns = 0;
    t_own.target_plus_one = target + 1;
  }
  std::int64_t& left = only ? t_own.only_ns : t_own.left_ns;
  const bool dry = left <= 0;
  if (dry) left += draw(target, -left);
  // After the sleep, which is no work of the GPU; and before paying, so that what was measured
  // counts.
  if (dry || estimate.measured.load(std::memory_order_acquire) != key) {
    open_sample(function, place.context);
  }
  left -= estimate.cost_ns.load(std::memory_order_relaxed);
}

}  // namespace berth::guard
