"""Tasks, tasklets, their queues, and the loop that runs them on each thread."""
