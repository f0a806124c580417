"""What is stored, and under which key. What reads it raises ``DamagedError`` where an object is missing or can't be decoded."""
