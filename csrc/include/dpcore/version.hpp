// The one place where the version lives. pyproject.toml and CMakeLists.txt read this line.
#pragma once

#define DPCORE_VERSION "0.1.0"
