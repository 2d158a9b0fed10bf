"""What every part may use and what knows nothing of the field: compiling, devices, platforms, records."""
