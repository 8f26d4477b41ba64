// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace strop {
namespace {

constexpr std::chrono::milliseconds kBarInterval(100);
constexpr std::chrono::seconds kLineInterval(10);

int TerminalWidth() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return 80;
}

}  // namespace

std::string DurationText(double seconds) {
  const int64_t s = static_cast<int64_t>(seconds + 0.5);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { ClearBar(); }

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

std::string Progress::Line(const Position& p) const {
  const double elapsed = std::max(seconds(), 1e-9);
  const double speed = static_cast<double>(p.samples) / elapsed;
  std::string text = fmt::format("epoch {}", p.epoch);
  if (p.epochs > 0) text += fmt::format("/{}", p.epochs);
  text += fmt::format("  {}/{}  loss {:.4g}  lr {:.3g}  {:.0f} samples/s",
                      p.batch, p.batches, p.loss, p.rate, speed);
  return text;
}

void Progress::Update(const Position& p) {
  const Clock::time_point now = Clock::now();
  if (now - last_draw_ < (terminal_ ? Clock::duration(kBarInterval)
                                    : Clock::duration(kLineInterval))) {
    return;
  }
  // Time left by the speed of the whole run in this process.
  std::string line = Line(p);
  if (p.done > 0 && p.total > p.done) {
    const double left = seconds() / static_cast<double>(p.done) *
                        static_cast<double>(p.total - p.done);
    line += fmt::format("  {} left", DurationText(left));
  }
  last_draw_ = now;
  if (!terminal_) {
    Print(line);
    return;
  }
  const int room = TerminalWidth() - static_cast<int>(line.size()) - 5;
  const int width = std::min(room, 30);
  if (width >= 8 && p.batches > 0) {
    const int filled = static_cast<int>(width * p.batch / p.batches);
    line += fmt::format("  [{:=<{}}{: <{}}]", "", filled, "", width - filled);
  }
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
  bar_drawn_ = true;
}

}  // namespace strop
