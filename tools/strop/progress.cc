// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "terminal.h"

namespace strop {
namespace {

constexpr std::chrono::milliseconds kBarInterval(100);
constexpr std::chrono::seconds kLineInterval(10);

// Columns that the text beside the bar takes at most, as a rule: a bar whose
// width followed the text would jump.
constexpr size_t kTextWidth = 74;
constexpr size_t kMostBar = 30;

}  // namespace

std::string DurationText(double seconds) {
  const int64_t s = static_cast<int64_t>(seconds + 0.5);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

Progress::Progress() : terminal_(ErrorIsTerminal()) {}

Progress::~Progress() { ClearBar(); }

void Progress::Restart() { start_ = last_draw_ = Clock::now(); }

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Progress::ClearBar() {
  if (!bar_drawn_) return;
  std::fputs("\r\033[K", stderr);  // to the left, erase to the end of line
  std::fflush(stderr);
  bar_drawn_ = false;
}

void Progress::Print(std::string_view line) {
  ClearBar();
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

LogSink Progress::log_sink() {
  return [this](LogLevel level, std::string_view text) {
    if (level == LogLevel::kInfo) return;
    ClearBar();
    std::string line =
        fmt::format("strop: {}: {}\n",
                    level == LogLevel::kWarning ? "warning" : "error", text);
    std::fputs(line.c_str(), stderr);
  };
}

std::string Progress::Line(const Position& p, size_t bar_width) const {
  std::string text = fmt::format("epoch {}", p.epoch);
  if (p.epochs > 0) text += fmt::format("/{}", p.epochs);
  if (bar_width > 0) {
    const size_t filled = bar_width * static_cast<size_t>(p.batch) /
                          static_cast<size_t>(p.batches);
    text +=
        fmt::format("  [{:=<{}}{: <{}}]", "", filled, "", bar_width - filled);
  }
  const double elapsed = std::max(seconds(), 1e-9);
  text += fmt::format("  {}/{}  loss {:.4g}  lr {:.3g}  {:.0f} samples/s",
                      p.batch, p.batches, p.loss, p.rate,
                      static_cast<double>(p.samples) / elapsed);
  if (p.done > 0 && p.total > p.done) {
    // By the speed of the whole run in this process.
    const double left = elapsed / static_cast<double>(p.done) *
                        static_cast<double>(p.total - p.done);
    text += fmt::format("  {} left", DurationText(left));
  }
  return text;
}

void Progress::Update(const Position& p) {
  const Clock::time_point now = Clock::now();
  const Clock::duration interval = terminal_ ? Clock::duration(kBarInterval)
                                             : Clock::duration(kLineInterval);
  if (now - last_draw_ < interval) return;
  last_draw_ = now;
  if (!terminal_) {
    Print(Line(p, /*bar_width=*/0));
    return;
  }
  const size_t width = TerminalWidth();
  std::string line =
      Line(p, width > kTextWidth ? std::min(width - kTextWidth, kMostBar) : 0);
  line.resize(std::min(line.size(), width - 1));  // a wrapped line would stay
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
  bar_drawn_ = true;
}

}  // namespace strop
