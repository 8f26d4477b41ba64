// SPDX-License-Identifier: Apache-2.0
#include "runtime/profiler.h"

#include <fmt/format.h>

#include "runtime/json.h"

namespace strop {
namespace {

using std::chrono::duration_cast;
using std::chrono::nanoseconds;

// The shapes of a step: "(32, 784) (64, 784) -> (32, 64)".
std::string ShapesOf(const Plan& plan, const PlanStep& step) {
  std::string text;
  auto append = [&](int slot) {
    if (slot < 0) return;
    const PlanSlot& s = plan.slots[static_cast<size_t>(slot)];
    text += s.is_list ? "list " : s.info.shape.ToString() + " ";
  };
  for (int slot : step.inputs) append(slot);
  text += "->";
  for (int slot : step.outputs) {
    if (slot < 0) continue;
    text += " " + plan.slots[static_cast<size_t>(slot)].info.shape.ToString();
  }
  return text;
}

}  // namespace

void Profiler::Record(const Plan& plan, const PlanStep& step,
                      Clock::time_point begin, Clock::time_point end) {
  if (events_.size() >= kMostEvents) {
    ++left_out_;
    return;
  }
  Event event;
  event.name = step.node->name.empty()
                   ? step.node->op_type
                   : step.node->op_type + " " + step.node->name;
  event.kernel = step.kernel_name;
  event.shapes = ShapesOf(plan, step);
  event.begin_ns = duration_cast<nanoseconds>(begin - start_).count();
  event.duration_ns = duration_cast<nanoseconds>(end - begin).count();
  event.flops = step.flops;
  events_.push_back(std::move(event));
}

std::string Profiler::ToJson() const {
  std::string json = "[\n";
  for (size_t i = 0; i < events_.size(); ++i) {
    const Event& e = events_[i];
    json += fmt::format(
        R"({{"name":{},"cat":"kernel","ph":"X","pid":1,"tid":1,"ts":{:.3f},)"
        R"("dur":{:.3f},"args":{{"kernel":{},"shapes":{},"ms":{:.6f})",
        JsonString(e.name), static_cast<double>(e.begin_ns) * 1e-3,
        static_cast<double>(e.duration_ns) * 1e-3, JsonString(e.kernel),
        JsonString(e.shapes), static_cast<double>(e.duration_ns) * 1e-6);
    if (e.flops > 0 && e.duration_ns > 0) {
      json += fmt::format(R"(,"GFLOP/s":{:.3f})",
                          e.flops / static_cast<double>(e.duration_ns));
    }
    json += i + 1 < events_.size() || left_out_ > 0 ? "}},\n" : "}}\n";
  }
  if (left_out_ > 0) {
    json += fmt::format(
        R"({{"name":"events left out","cat":"kernel","ph":"i","pid":1,)"
        R"("tid":1,"ts":0,"args":{{"count":{}}}}})",
        left_out_);
    json += "\n";
  }
  return json + "]\n";
}

}  // namespace strop
