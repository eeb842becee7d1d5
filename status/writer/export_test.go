package writer

// LimitWrites replaces the maximum number of concurrent writes to a sink.
func LimitWrites(c *Config, n int) { c.maxWrites = n }
