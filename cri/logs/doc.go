// Package logs reads the log files that a container runtime writes: the CRI
// format, one line per write with a timestamp, a stream and tags in front, and
// the JSON lines of docker.
//
// ParseLine takes one line apart. Tail returns the text of the last lines of a
// file, which is what becomes of a container's termination message when the
// container left none of its own:
//
//	text, err := logs.Tail(path, 80, 2048)
//
// Tail reads from the end and only as much as it needs, whatever the size of
// the file. It looks at this one file: lines that a rotation moved elsewhere are
// not found. The package needs nothing but files; it does not talk to a runtime.
package logs
