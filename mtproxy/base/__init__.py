"""Ground floor: what every other package may import, and which imports nothing of mtproxy."""
