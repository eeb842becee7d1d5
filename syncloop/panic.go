package syncloop

import "github.com/podwright/podwright/internal/run"

// PanicError is a recovered panic of a callback: handler, event source, admitter or cleaner. Value
// is the value of the panic. Unwrap returns Value if it is an error.
type PanicError = run.PanicError
