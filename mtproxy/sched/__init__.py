"""The scheduler: tasklets, timers, the shared wait queue, and one loop per thread."""
