// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <utility>

#include <reprise/suggest.h>

namespace reprise {
namespace {

// Edits that turn one word into the other: insert, delete, replace, swap two neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost.back().back();
}

}  // namespace

std::vector<std::string> nearest_words(std::string_view word,
                                       const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 64;  // nobody misspells that much; it keeps the cost small
  if (word.empty() || word.size() > kLongest) return {};
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    const std::size_t shorter = std::min(word.size(), candidate.size());
    const bool begins = shorter >= 3 && candidate.starts_with(word);
    if (begins || distance <= (shorter + 1) / 3) near.emplace_back(distance, candidate);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> words;
  for (auto& [distance, candidate] : near) words.push_back(std::move(candidate));
  return words;
}

}  // namespace reprise
