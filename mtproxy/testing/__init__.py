"""Tools for tests and benchmarks: nothing here is imported by the proxy itself."""
