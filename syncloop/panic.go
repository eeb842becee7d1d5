package syncloop

import "github.com/podwright/podwright/internal/run"

// PanicError is what the package makes of a panic in something that it calls: a
// handler, an event source, an admitter, a cleaner. Value is what it panicked with,
// and what Unwrap returns if it is an error.
type PanicError = run.PanicError
