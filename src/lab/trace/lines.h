// lines.h — reads a text file line by line, and makes errors that name a line.
#pragma once

#include "base/error.h"

#include <fstream>
#include <string>
#include <string_view>

namespace larder {

class Lines {
  public:
    // Throws Error(io).
    explicit Lines(const std::string &path);

    // Goes to the next line that is not empty; false at the end of the file. Throws Error(io).
    bool next();

    [[nodiscard]] const std::string &text() const { return text_; }
    [[nodiscard]] size_t number() const { return number_; }

    // The error "FILE:LINE: what", for the current line or for an earlier one.
    [[nodiscard]] Error fault(std::string_view what) const { return fault_at(number_, what); }
    [[nodiscard]] Error fault_at(size_t number, std::string_view what) const;

  private:
    std::string path_;
    std::ifstream file_;
    std::string text_;
    size_t number_ = 0; // from 1
};

} // namespace larder
