"""Domain-independent tools that every part may use: compiling, devices, platforms, records."""
