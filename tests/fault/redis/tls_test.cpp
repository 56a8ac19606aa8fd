// Encrypted connections to Redis.
