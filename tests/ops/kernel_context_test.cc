// SPDX-License-Identifier: Apache-2.0
//
// Which loops of kernels are cut into parts.
#include <gtest/gtest.h>

#include <atomic>

#include "base/thread_pool.h"
#include "graph/graph.h"
#include "strop/op.h"

namespace strop {
namespace {

// How many parts a loop of n items is cut into.
int PartsOf(ThreadPool& pool, int64_t n, double cost) {
  Graph graph;
  Node node;
  const NodeId id = graph.AddNode(std::move(node));
  KernelContext context(OpNode(graph, graph.node(id)), {}, {});
  context.set_threads(&pool, 3);
  std::atomic<int> parts{0};
  context.ParallelFor(n, cost, [&](int64_t, int64_t) { ++parts; });
  return parts;
}

TEST(KernelContext, KeepsShortLoopsOnOneThread) {
  ThreadPool pool(3);
  EXPECT_EQ(PartsOf(pool, 3, 1000), 1);
  EXPECT_EQ(PartsOf(pool, 3, 5000), 3);
  EXPECT_EQ(PartsOf(pool, 4, 2500), 2);
  EXPECT_EQ(PartsOf(pool, 100, 0), 1);
  EXPECT_EQ(PartsOf(pool, 0, 1e9), 0);
}

TEST(KernelContext, CutsAllLoopsForAPoolThatWantsIt) {
  ThreadPool pool(3, /*part_nanoseconds=*/0);
  EXPECT_EQ(PartsOf(pool, 3, 1), 3);
  EXPECT_EQ(PartsOf(pool, 2, 0), 2);
  EXPECT_EQ(PartsOf(pool, 1, 1e9), 1);
  EXPECT_EQ(PartsOf(pool, 0, 1), 0);
}

}  // namespace
}  // namespace strop
