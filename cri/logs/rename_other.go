//go:build !linux

package logs

// renameNew renames a file unless there is one under the new name: that is an
// error that wraps fs.ErrExist.
func renameNew(from, to string) error { return linkNew(from, to) }
