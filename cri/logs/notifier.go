package logs

// Notifier tells about changes in directories. Inotify opens the kernel's.
//
// Next is called by one goroutine, the others at any time; Close makes Next
// return an error. What a notifier does not tell is found by looking, a period
// later.
type Notifier interface {
	// Add watches a directory. Adding one again changes nothing.
	Add(dir string) error
	// Remove ends that; a directory that is not watched is ignored.
	Remove(dir string)
	// Next waits for changes and appends them to buf. An error means that the
	// notifier is of no use any more.
	Next(buf []Change) ([]Change, error)
	// Close gives everything back.
	Close() error
}

// Change is a change in a directory.
type Change struct {
	// Dir is the directory, as it was added; "" stands for all of them: changes
	// were lost.
	Dir string
	// Name is the file that changed; "" if it is the directory itself.
	Name string
	// Closed tells that somebody who could write to the file has closed it.
	Closed bool
	// Unwatched tells that the directory is gone, and no longer watched.
	Unwatched bool
}
