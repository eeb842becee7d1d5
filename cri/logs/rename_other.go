//go:build !linux

package logs

// renameNew renames a file. If the new name exists, it fails with an error that wraps fs.ErrExist.
func renameNew(from, to string) error { return linkNew(from, to) }
