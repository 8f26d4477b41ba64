// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#if defined(_M_X64) || defined(_M_ARM64)
#include <intrin.h>
#elif defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "base/throw.h"

namespace strop {
namespace {

constexpr int kMaxThreads = 1024;

// How long a thread spins before it sleeps: longer than the gap between two
// loops of a step, shorter than a user would notice on a battery.
constexpr auto kSpinTime = std::chrono::microseconds(20);

// Worker threads of an older generation do not exist here. Never 0.
uint64_t Generation() { return ForkCount() + 1; }

void Pause() {
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64)
  _mm_pause();
#elif defined(_M_ARM64)
  __yield();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns the value once it differs from `old`: spins if `spin`, then sleeps.
uint32_t WaitForChange(const std::atomic<uint32_t>& value, uint32_t old,
                       bool spin) {
  uint32_t now = value.load(std::memory_order_acquire);
  if (spin && now == old) {
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < 16 && now == old; ++i) {
        Pause();
        now = value.load(std::memory_order_acquire);
      }
    } while (now == old && std::chrono::steady_clock::now() < end);
  }
  while (now == old) {
    value.wait(old, std::memory_order_acquire);
    now = value.load(std::memory_order_acquire);
  }
  return now;
}

// A loop cut into parts. The first `n % parts` parts are one item longer.
struct Loop {
  RangeFunction fn;
  int64_t n;
  int64_t parts;

  void Run(int64_t part) const {
    const int64_t size = n / parts;
    const int64_t longer = n % parts;
    const int64_t begin = part * size + std::min(part, longer);
    fn(begin, begin + size + (part < longer ? 1 : 0));
  }

  void RunSerially() const {
    for (int64_t part = 0; part < parts; ++part) Run(part);
  }
};

// The workers of one process. Worker i runs part i + 1 of a loop, the caller
// part 0, and then the parts that their workers have not begun: where another
// process holds a core, its worker may be away for milliseconds. A worker
// without a part stays asleep.
class Workers {
 public:
  Workers(int count, bool spin)
      : generation_(Generation()), spin_(spin), workers_(count) {}

  ~Workers() {
    stopping_ = true;
    for (Worker& worker : workers_) {
      if (!worker.thread.joinable()) break;
      worker.ticket.fetch_add(1);
      worker.ticket.notify_one();
      worker.thread.join();
    }
  }

  uint64_t generation() const { return generation_; }

  // False if the system refuses a thread.
  bool Start(int64_t count) {
    try {
      for (; started_ < count; ++started_) {
        Worker& worker = workers_[started_];
        worker.thread = std::thread([this, i = started_] { Work(i); });
      }
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  void Run(const Loop& loop) {
    loop_ = &loop;
    const int64_t helpers = loop.parts - 1;
    remaining_.store(static_cast<uint32_t>(helpers));
    for (int64_t i = 0; i < helpers; ++i) {
      workers_[i].ticket.fetch_add(1);
      workers_[i].ticket.notify_one();
    }
    std::exception_ptr error = RunPart(loop, 0);
    for (int64_t i = 0; i < helpers; ++i) {
      Worker& worker = workers_[i];
      if (!Claim(worker, worker.ticket.load(std::memory_order_relaxed))) {
        continue;
      }
      worker.error = RunPart(loop, i + 1);
      remaining_.fetch_sub(1);
    }
    for (uint32_t left = remaining_.load(std::memory_order_acquire); left;) {
      left = WaitForChange(remaining_, left, spin_);
    }
    // The lowest part that failed speaks, as in a serial loop.
    for (int64_t i = 0; i < helpers; ++i) {
      std::exception_ptr other = std::exchange(workers_[i].error, nullptr);
      if (!error) error = std::move(other);
    }
    if (error) std::rethrow_exception(error);
  }

 private:
  // A cache line each, so that a spinning worker disturbs nobody.
  struct alignas(64) Worker {
    std::atomic<uint32_t> ticket{0};   // counts the loops given to the worker
    std::atomic<uint32_t> claimed{0};  // the last of them that somebody runs
    std::exception_ptr error;
    std::thread thread;
  };

  // True for the one who is to run the worker's part of the loop `ticket`. A
  // worker that wakes when its loop is over claims in vain.
  static bool Claim(Worker& worker, uint32_t ticket) {
    uint32_t before = ticket - 1;
    return worker.claimed.compare_exchange_strong(before, ticket,
                                                  std::memory_order_acq_rel);
  }

  static std::exception_ptr RunPart(const Loop& loop, int64_t part) {
    try {
      loop.Run(part);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void Work(int64_t i) {
    Worker& self = workers_[i];
    uint32_t seen = 0;
    while (true) {
      seen = WaitForChange(self.ticket, seen, spin_);
      if (stopping_) return;
      if (!Claim(self, seen)) continue;
      self.error = RunPart(*loop_, i + 1);
      if (remaining_.fetch_sub(1) == 1) remaining_.notify_one();
    }
  }

  const uint64_t generation_;
  const bool spin_;
  std::vector<Worker> workers_;
  int64_t started_ = 0;
  // Written before a ticket is, read after it.
  const Loop* loop_ = nullptr;
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<uint32_t> remaining_{0};
};

}  // namespace

class ThreadPool::Impl {
 public:
  Impl(int num_threads, int cores)
      : num_threads_(num_threads), spin_(num_threads <= cores) {}

  ~Impl() { DropForeignWorkers(); }

  int num_threads() const { return num_threads_; }

  void Run(const Loop& loop) {
    // A loop inside a loop finds the pool owned and runs serially too.
    const uint64_t generation = Generation();
    uint64_t owner = owner_.load(std::memory_order_relaxed);
    if (owner == generation ||
        !owner_.compare_exchange_strong(owner, generation,
                                        std::memory_order_acquire)) {
      loop.RunSerially();
      return;
    }
    struct Release {
      std::atomic<uint64_t>& owner;
      ~Release() { owner.store(0, std::memory_order_release); }
    } release{owner_};
    DropForeignWorkers();
    if (!workers_)
      workers_ = std::make_unique<Workers>(num_threads_ - 1, spin_);
    if (!workers_->Start(loop.parts - 1)) {
      loop.RunSerially();
      return;
    }
    workers_->Run(loop);
  }

 private:
  // Threads of the parent of a fork cannot be joined, nor may their objects
  // be destroyed: the child leaves them alone.
  void DropForeignWorkers() {
    if (workers_ && workers_->generation() != Generation()) {
      (void)workers_.release();
    }
  }

  const int num_threads_;
  const bool spin_;
  // The generation of the process in which a loop runs now, or 0. A loop that
  // the parent of a fork left behind does not count in the child.
  std::atomic<uint64_t> owner_{0};
  std::unique_ptr<Workers> workers_;
};

ThreadPool::ThreadPool(int num_threads, double part_nanoseconds)
    : part_nanoseconds_(part_nanoseconds) {
  if (num_threads < 0 || num_threads > kMaxThreads) {
    Throw(ErrorCode::kInvalidArgument,
          "the number of threads must be between 0 and {}, got {}", kMaxThreads,
          num_threads);
  }
  const int cores = std::min(AvailableCores(), kMaxThreads);
  impl_ = std::make_unique<Impl>(num_threads ? num_threads : cores, cores);
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::num_threads() const { return impl_->num_threads(); }

void ThreadPool::ParallelFor(int64_t n, int64_t grain, int max_threads,
                             RangeFunction fn) {
  if (n <= 0) return;
  const int64_t threads = std::clamp(max_threads, 1, impl_->num_threads());
  const int64_t parts =
      std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, threads);
  if (parts == 1) {
    fn(0, n);
  } else {
    impl_->Run({fn, n, parts});
  }
}

}  // namespace strop
