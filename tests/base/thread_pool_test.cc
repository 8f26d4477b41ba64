// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "strop/error.h"

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace strop {
namespace {

using Parts = std::vector<std::pair<int64_t, int64_t>>;

Parts PartsOf(ThreadPool& pool, int64_t n, int64_t grain, int max_threads) {
  std::mutex mutex;
  Parts parts;
  pool.ParallelFor(n, grain, max_threads, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    parts.emplace_back(begin, end);
  });
  std::sort(parts.begin(), parts.end());
  return parts;
}

TEST(ThreadPool, CutsTheRangeIntoEqualParts) {
  ThreadPool pool(4);
  EXPECT_EQ(PartsOf(pool, 10, 1, 4), (Parts{{0, 3}, {3, 6}, {6, 8}, {8, 10}}));
  EXPECT_EQ(PartsOf(pool, 10, 1, 3), (Parts{{0, 4}, {4, 7}, {7, 10}}));
  EXPECT_EQ(PartsOf(pool, 10, 1, 99).size(), 4u);
  EXPECT_EQ(PartsOf(pool, 2, 1, 4), (Parts{{0, 1}, {1, 2}}));
}

TEST(ThreadPool, GivesEachPartAtLeastAGrain) {
  ThreadPool pool(4);
  EXPECT_EQ(PartsOf(pool, 10, 4, 4), (Parts{{0, 5}, {5, 10}}));
  EXPECT_EQ(PartsOf(pool, 10, 6, 4), (Parts{{0, 10}}));
  EXPECT_EQ(PartsOf(pool, 10, 1000, 4), (Parts{{0, 10}}));
  EXPECT_EQ(PartsOf(pool, 10, 0, 2), (Parts{{0, 5}, {5, 10}}));
}

TEST(ThreadPool, CallsNothingForAnEmptyRange) {
  ThreadPool pool(2);
  EXPECT_TRUE(PartsOf(pool, 0, 1, 2).empty());
  EXPECT_TRUE(PartsOf(pool, -3, 1, 2).empty());
}

TEST(ThreadPool, SurvivesTheLongestRange) {
  ThreadPool pool(3);
  const Parts parts = PartsOf(pool, INT64_MAX, 1, 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].first, 0);
  EXPECT_EQ(parts[0].second, parts[1].first);
  EXPECT_EQ(parts[1].second, parts[2].first);
  EXPECT_EQ(parts[2].second, INT64_MAX);
}

TEST(ThreadPool, ClampsTheThreadCountOfALoop) {
  ThreadPool pool(2);
  EXPECT_EQ(PartsOf(pool, 10, 1, 0), (Parts{{0, 10}}));
  EXPECT_EQ(PartsOf(pool, 10, 1, -5), (Parts{{0, 10}}));
}

TEST(ThreadPool, CountsTheCallingThread) {
  EXPECT_EQ(ThreadPool(3).num_threads(), 3);
  EXPECT_GE(ThreadPool(0).num_threads(), 1);
  EXPECT_THROW(ThreadPool(-1), Error);
  EXPECT_THROW(ThreadPool(1000000), Error);
}

TEST(ThreadPool, RunsEachPartOnItsOwnThread) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<int> arrived{0};
  pool.ParallelFor(3, 1, 3, [&](int64_t, int64_t) {
    // Nobody leaves before all three are here, so there are three threads.
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 3u);
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

TEST(ThreadPool, GivesAPartToTheSameThreadEachTime) {
  ThreadPool pool(2);
  const auto thread_of_second_part = [&] {
    std::thread::id id;
    std::atomic<bool> begun{false};
    pool.ParallelFor(2, 1, 2, [&](int64_t begin, int64_t) {
      if (begin == 1) {
        id = std::this_thread::get_id();
        begun = true;
      }
      while (!begun) std::this_thread::yield();
    });
    return id;
  };
  const std::thread::id first = thread_of_second_part();
  EXPECT_NE(first, std::this_thread::get_id());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(thread_of_second_part(), first);
}

// Of many sleeping threads some come too late for parts this short.
TEST(ThreadPool, RunsPartsWhoseThreadsAreAway) {
  constexpr int kThreads = 64, kLoops = 200;
  ThreadPool pool(kThreads);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> parts{0}, parts_of_caller{0};
  for (int i = 0; i < kLoops; ++i) {
    // Until the workers do not spin any more.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pool.ParallelFor(kThreads, 1, kThreads, [&](int64_t, int64_t) {
      ++parts;
      parts_of_caller += std::this_thread::get_id() == caller;
    });
  }
  EXPECT_EQ(parts, kThreads * kLoops);
  EXPECT_GT(parts_of_caller, kLoops);
}

// Workers may wake for a loop that is over when the pool goes.
TEST(ThreadPool, IsDestroyedRightAfterShortLoops) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(8);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(PartsOf(pool, 8, 1, 8).size(), 8u);
    }
  }
}

TEST(ThreadPool, SeesWritesOfAllPartsAfterManyLoops) {
  ThreadPool pool(4);
  std::vector<int64_t> values(1000);
  for (int round = 0; round < 2000; ++round) {
    const int threads = 1 + round % 4;
    pool.ParallelFor(1000, 1, threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[i] += i;
    });
  }
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(values[i], 2000 * i);
}

TEST(ThreadPool, WakesWorkersThatSleep) {
  ThreadPool pool(2);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(PartsOf(pool, 2, 1, 2).size(), 2u);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(ThreadPool, RunsANestedLoopOnTheSameThread) {
  ThreadPool pool(2);
  std::atomic<int> items{0};
  std::atomic<int> strangers{0};
  pool.ParallelFor(2, 1, 2, [&](int64_t, int64_t) {
    const std::thread::id outer = std::this_thread::get_id();
    pool.ParallelFor(10, 1, 2, [&](int64_t begin, int64_t end) {
      items += static_cast<int>(end - begin);
      if (std::this_thread::get_id() != outer) ++strangers;
    });
  });
  EXPECT_EQ(items, 20);
  EXPECT_EQ(strangers, 0);
}

TEST(ThreadPool, ServesConcurrentCallersWithTheSamePartition) {
  ThreadPool pool(2);
  const Parts wanted = {{0, 50}, {50, 100}};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        if (PartsOf(pool, 100, 1, 2) != wanted) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, RethrowsTheErrorOfTheLowestPartAfterTheJoin) {
  ThreadPool pool(4);
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> finished{0};
    try {
      pool.ParallelFor(4, 1, 4, [&](int64_t begin, int64_t) {
        ++finished;
        if (begin >= 2) throw std::runtime_error(std::to_string(begin));
      });
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "2");
    }
    EXPECT_EQ(finished, 4);
  }
  EXPECT_EQ(PartsOf(pool, 4, 1, 4).size(), 4u);  // still usable
}

TEST(ThreadPool, RethrowsTheErrorOfTheCallersPart) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.ParallelFor(2, 1, 2,
                                [](int64_t begin, int64_t) {
                                  if (begin == 0) throw std::logic_error("x");
                                }),
               std::logic_error);
  EXPECT_EQ(PartsOf(pool, 2, 1, 2).size(), 2u);
}

#if !defined(_WIN32)  // which has no fork()

// The exit status of a child that runs `body`; 99 if it hangs or crashes.
template <class Body>
int StatusOfChild(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

TEST(ThreadPool, RebuildsItsWorkersInAForkedChild) {
  ThreadPool pool(3);
  ASSERT_EQ(PartsOf(pool, 3, 1, 3).size(), 3u);  // workers run in the parent
  const auto use_twice = [&] {
    for (int i = 0; i < 2; ++i) {
      if (PartsOf(pool, 3, 1, 3).size() != 3) return 1;
    }
    // A grandchild rebuilds them again.
    return StatusOfChild(
        [&] { return PartsOf(pool, 3, 1, 3).size() == 3 ? 0 : 2; });
  };
  EXPECT_EQ(StatusOfChild(use_twice), 0);
  EXPECT_EQ(PartsOf(pool, 3, 1, 3).size(), 3u);
}

TEST(ThreadPool, CanBeDestroyedInAForkedChild) {
  auto pool = std::make_unique<ThreadPool>(2);
  ASSERT_EQ(PartsOf(*pool, 2, 1, 2).size(), 2u);
  EXPECT_EQ(StatusOfChild([&] {
              pool.reset();
              return 0;
            }),
            0);
}

TEST(ThreadPool, WorksInAChildForkedWhileALoopRuns) {
  ThreadPool pool(2);
  std::atomic<bool> inside{false}, done{false};
  std::thread caller([&] {
    pool.ParallelFor(2, 1, 2, [&](int64_t, int64_t) {
      inside = true;
      while (!done) std::this_thread::yield();
    });
  });
  while (!inside) std::this_thread::yield();
  const int status = StatusOfChild([&] {
    std::atomic<int> arrived{0};
    // Hangs unless two threads take part.
    pool.ParallelFor(2, 1, 2, [&](int64_t, int64_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    return 0;
  });
  done = true;
  caller.join();
  EXPECT_EQ(status, 0);
}

#endif

}  // namespace
}  // namespace strop
