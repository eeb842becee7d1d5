package writer

// LimitWrites replaces the number of pods that are written to a sink at a time.
func LimitWrites(c *Config, n int) { c.maxWrites = n }
