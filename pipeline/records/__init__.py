"""What is stored, and under which key. What reads it raises ``DamagedError`` if an object is missing or can't be decoded."""
