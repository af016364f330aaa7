"""Running compiled programs: kernels, objects, executables. Knows no HLO."""
